"""Store image files for training: upright by their EXIF orientation, other formats as PNG.

Cameras store the sensor's image and an orientation tag. Viewers apply the tag, TensorFlow's decoders do not.
So ingest stores images upright, without the tag.
"""

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from detection_core.data.image_header import ImageFault, ImageHeader, check_size

if TYPE_CHECKING:
    from PIL import Image


UPRIGHT = 1
"""EXIF orientation of an upright image."""

SWAPS_SIDES = frozenset({5, 6, 7, 8})
"""Orientations that exchange rows and columns (EXIF 2.32, tag 274)."""

# Pillow's code for chroma at half the columns. After a turn that is half the rows, which Pillow cannot write.
_HALF_COLUMNS, _FULL = 1, 0
_ORIENTATION_TAG = 0x0112


@contextlib.contextmanager
def pillow_faults(reason: str, describe: Callable[[Exception], str]) -> Iterator[None]:
    """Convert Pillow's errors in the block to an ImageFault with this reason."""
    from PIL import Image

    try:
        yield
    except (ImageFault, MemoryError):
        raise
    except Image.DecompressionBombError as e:
        raise ImageFault("decompression_bomb", str(e)) from e
    except Exception as e:  # Pillow's decoders raise many types of error for damaged bytes
        raise ImageFault(reason, describe(e)) from e


def read_orientation(data: bytes, image_format: str) -> int:
    """Return an image file's EXIF orientation, 1 to 8; 1 if it has none or an unreadable one.

    Opening a file costs more than encoding it. So call this only for files with metadata, see
    `image_header.read_header`.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=[image_format.upper()]) as picture:
            return noted_orientation(picture)
    except Exception:  # Pillow's parsers raise many types of error; the file's structure is checked elsewhere
        return UPRIGHT


def noted_orientation(picture: "Image.Image") -> int:
    """Return the EXIF orientation of an open Pillow image, 1 to 8; 1 if it has none."""
    found = picture.getexif().get(_ORIENTATION_TAG, UPRIGHT)
    return found if isinstance(found, int) and UPRIGHT < found <= 8 else UPRIGHT


def turn_upright(picture: "Image.Image", orientation: int = 0) -> "Image.Image":
    """Apply an orientation (0: from the EXIF tag) to an image; return the same object if it is upright.

    Pillow's own function rewrites all tags, and fails for one of the wrong type.
    """
    from PIL import Image

    picture.load()  # also turns a TIFF and removes its tag
    # EXIF 2.32, tag 274: the transposition for orientation 2 and up.
    turns = (
        Image.Transpose.FLIP_LEFT_RIGHT,
        Image.Transpose.ROTATE_180,
        Image.Transpose.FLIP_TOP_BOTTOM,
        Image.Transpose.TRANSPOSE,
        Image.Transpose.ROTATE_270,
        Image.Transpose.TRANSVERSE,
        Image.Transpose.ROTATE_90,
    )
    orientation = orientation or noted_orientation(picture)
    return picture if orientation == UPRIGHT else picture.transpose(turns[orientation - 2])


def upright_size(width: int, height: int, orientation: int) -> tuple[int, int]:
    """Return the columns and rows of a stored image after turning it by an orientation, 1 to 8."""
    return (height, width) if orientation in SWAPS_SIDES else (width, height)


def turn_point(x: float, y: float, width: float, height: float, orientation: int) -> tuple[float, float]:
    """Convert a point of the stored image, pixels from the upper left corner, to the upright one.

    `width` and `height` are those of the stored image; orientation by EXIF 2.32, tag 274.
    """
    return {
        1: (x, y),
        2: (width - x, y),
        3: (width - x, height - y),
        4: (x, height - y),
        5: (y, x),
        6: (height - y, x),
        7: (height - y, width - x),
        8: (y, width - x),
    }[orientation]


def store_upright(data: bytes, image_format: str) -> tuple[bytes, ImageHeader]:
    """Turn a JPEG or PNG file's pixels by its EXIF orientation and store them without the tag.

    A JPEG keeps its quantization tables, turned with the image, and its chroma sampling where possible. So
    recompression changes pixels by less than one of 255 levels on average.

    Returns:
        The new file, deterministic, and its header.

    Raises:
        ImageFault: when the file cannot be decoded.
    """
    from PIL import Image

    stored, what = io.BytesIO(), "expected an image that can be turned upright, found a damaged one ({})"
    with (
        pillow_faults("undecodable_image", what.format),
        Image.open(io.BytesIO(data), formats=[image_format.upper()]) as picture,
    ):
        options = jpeg_options(picture) if image_format == "jpeg" else {}
        turned = turn_upright(picture)
        turned.info = {}  # remove colour profile and comments: our decoders ignore them
        turned.save(stored, image_format.upper(), **options)
    return stored.getvalue(), ImageHeader(image_format, turned.height, turned.width)


def turn_png(data: bytes, orientation: int) -> bytes:
    """Return a PNG file, such as a mask's, with the pixels turned by an EXIF orientation, 2 to 8."""
    from PIL import Image

    turned = io.BytesIO()
    with Image.open(io.BytesIO(data), formats=["PNG"]) as picture:
        turn_upright(picture, orientation).save(turned, "PNG")
    return turned.getvalue()


def jpeg_options(picture: Any) -> dict[str, Any]:
    """Return a JPEG's quantization tables and chroma sampling, as options to save its upright pixels with."""
    from PIL import JpegImagePlugin

    swapped = noted_orientation(picture) in SWAPS_SIDES
    tables = {number: list(table) for number, table in picture.quantization.items()}
    if swapped:
        tables = {n: [t[8 * (i % 8) + i // 8] for i in range(64)] for n, t in tables.items()}
    sampling = JpegImagePlugin.get_sampling(picture)
    if sampling < 0 or (swapped and sampling == _HALF_COLUMNS):
        sampling = _FULL
    return {"qtables": tables, "subsampling": sampling}


CONVERTIBLE = ("bmp", "gif", "tiff", "webp")
"""Formats that are stored as PNG; Pillow's names of all formats are ours in capitals."""

_EIGHT_BIT = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"}


def convert_to_png(data: bytes, image_format: str) -> tuple[bytes, ImageHeader]:
    """Return the first frame upright as an RGB PNG, deterministic, and its header; ImageFault if damaged."""
    from PIL import Image

    what = f"the {image_format.upper()} file cannot be decoded: {{}}"
    with pillow_faults("corrupt_image", what.format):
        image = Image.open(io.BytesIO(data), formats=[image_format.upper()])
        check_size(image.height, image.width)
        if image.mode not in _EIGHT_BIT:
            raise ImageFault("unsupported_image", f"expected 8 bits a channel, found mode {image.mode}")
        pixels = turn_upright(image).convert("RGB")
    stored = io.BytesIO()
    pixels.save(stored, "PNG")
    return stored.getvalue(), ImageHeader("png", pixels.height, pixels.width)
