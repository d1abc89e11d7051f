"""The EXIF orientation of image files: read, and applied to the stored pixels.

A camera stores the picture as its sensor saw it and notes how to turn it. Viewers follow the note,
TensorFlow's decoders do not. So images are stored upright once, at ingest, without the note.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from detection_core.data.image_header import ImageFault, ImageHeader, check_size

if TYPE_CHECKING:
    from PIL import Image


UPRIGHT = 1
"""The orientation of an image that is stored as it is to be seen."""

SWAPS_SIDES = frozenset({5, 6, 7, 8})
"""Orientations that make a column of a row (EXIF 2.32, tag 274)."""

_PILLOW_FORMATS = {"jpeg": "JPEG", "png": "PNG", "webp": "WEBP", "tiff": "TIFF"}

# Pillow's code for chroma at half the columns. Turned, that is half the rows, which Pillow does not write.
_HALF_COLUMNS, _FULL = 1, 0
_ORIENTATION_TAG = 0x0112


def read_orientation(data: bytes, image_format: str) -> int:
    """Return the orientation that an image file notes, 1 to 8; 1 where it notes none that can be read.

    To open a file costs more than to encode it, so this is for files with notes, which
    `image_header.read_structure` tells.

    Args:
        data: the whole file.
        image_format: as `image_header.read_header` names it.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=[_PILLOW_FORMATS[image_format]]) as picture:
            return noted_orientation(picture)
    except Exception:  # Pillow's parsers raise almost anything; the file's structure is judged elsewhere
        return UPRIGHT


def noted_orientation(picture: Image.Image) -> int:
    """Return the orientation of a picture that Pillow has opened, 1 to 8; 1 where it notes none."""
    found = picture.getexif().get(_ORIENTATION_TAG, UPRIGHT)
    return found if isinstance(found, int) and UPRIGHT < found <= 8 else UPRIGHT


def turn_upright(picture: Image.Image, orientation: int = 0) -> Image.Image:
    """Return a picture turned as an orientation says; the picture itself where nothing is to be done.

    Pillow's own function writes all tags of the file again, and fails for one that does not fit its type.

    Args:
        picture: as stored.
        orientation: 1 to 8; 0: what the picture notes.
    """
    from PIL import Image

    picture.load()  # which turns a TIFF, and takes its note away
    # EXIF 2.32, tag 274: what is to be done to the stored picture, from 2 on.
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
    """Return the columns and rows of a picture when it has been turned.

    Args:
        width: columns as stored.
        height: rows as stored.
        orientation: 1 to 8.
    """
    return (height, width) if orientation in SWAPS_SIDES else (width, height)


def turn_point(x: float, y: float, width: float, height: float, orientation: int) -> tuple[float, float]:
    """Return where a point of the stored picture lies in the upright one.

    Args:
        x: from the left edge of the stored picture, pixels.
        y: from its upper edge.
        width: columns as stored.
        height: rows as stored.
        orientation: 1 to 8, by EXIF 2.32, tag 274.
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
    """Turn an image file's pixels as its orientation says and store them, without the note.

    A JPEG keeps its quantization tables, turned with the picture, and its chroma sampling where that can be
    written, so the second compression costs next to nothing: less than one of 255 levels on average.

    Args:
        data: the whole file, JPEG or PNG.
        image_format: `jpeg` or `png`.

    Returns:
        The new file, the same for the same bytes, and what it holds.

    Raises:
        ImageFault: when it cannot be decoded.
    """
    from PIL import Image

    stored = io.BytesIO()
    try:
        with Image.open(io.BytesIO(data), formats=[_PILLOW_FORMATS[image_format]]) as picture:
            options = _jpeg_options(picture) if image_format == "jpeg" else {}
            turned = turn_upright(picture)
            turned.info = {}  # colour profile and comments: no decoder of ours follows them
            turned.save(stored, _PILLOW_FORMATS[image_format], **options)
    except MemoryError:
        raise
    except Image.DecompressionBombError as e:
        raise ImageFault("decompression_bomb", str(e)) from e
    except Exception as e:  # Pillow's decoders raise almost anything when the bytes are damaged
        raise ImageFault(
            "undecodable_image", f"expected an image that can be turned upright, found a damaged one ({e})"
        ) from e
    return stored.getvalue(), ImageHeader(image_format, turned.height, turned.width)


def turn_png(data: bytes, orientation: int) -> bytes:
    """Return a PNG file of the same pixels, turned.

    Args:
        data: the whole file, such as a mask's.
        orientation: 2 to 8, as EXIF counts.
    """
    from PIL import Image

    turned = io.BytesIO()
    with Image.open(io.BytesIO(data), formats=["PNG"]) as picture:
        turn_upright(picture, orientation).save(turned, "PNG")
    return turned.getvalue()


def _jpeg_options(picture: Any) -> dict[str, Any]:
    from PIL import JpegImagePlugin

    swapped = noted_orientation(picture) in SWAPS_SIDES
    tables = {number: list(table) for number, table in picture.quantization.items()}
    if swapped:
        tables = {n: [t[8 * (i % 8) + i // 8] for i in range(64)] for n, t in tables.items()}
    sampling = JpegImagePlugin.get_sampling(picture)
    if sampling < 0 or (swapped and sampling == _HALF_COLUMNS):
        sampling = _FULL
    return {"qtables": tables, "subsampling": sampling}


CONVERTIBLE = {"bmp": "BMP", "gif": "GIF", "tiff": "TIFF", "webp": "WEBP"}
"""Our format names to Pillow's: no other plug-in of Pillow is ever offered the bytes."""

_EIGHT_BIT = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"}


def convert_to_png(data: bytes, image_format: str) -> tuple[bytes, ImageHeader]:
    """Decode an image and store its pixels as an RGB PNG, upright; of an animation the first frame.

    Args:
        data: the whole file.
        image_format: a key of `CONVERTIBLE`.

    Returns:
        The PNG file's bytes, the same for the same pixels, and what they hold.

    Raises:
        ImageFault: for a file that cannot be decoded or is too large to be.
    """
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(data), formats=[CONVERTIBLE[image_format]])
        check_size(image.height, image.width)
        if image.mode not in _EIGHT_BIT:
            raise ImageFault("unsupported_image", f"expected 8 bits a channel, found mode {image.mode}")
        pixels = turn_upright(image).convert("RGB")
    except (ImageFault, MemoryError):
        raise
    except Image.DecompressionBombError as e:
        raise ImageFault("decompression_bomb", str(e)) from e
    except Exception as e:  # Pillow's decoders raise almost anything when the bytes are damaged
        raise ImageFault("corrupt_image", f"the {image_format.upper()} file cannot be decoded: {e}") from e
    stored = io.BytesIO()
    pixels.save(stored, "PNG")
    return stored.getvalue(), ImageHeader("png", pixels.height, pixels.width)
