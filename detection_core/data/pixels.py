"""Decode image files with Pillow, and compare with TensorFlow's pixels."""

import contextlib
import ctypes
import io
import re
import threading
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from detection_core.data.image_header import ImageFault, check_size
from detection_core.data.orientation import CONVERTIBLE, noted_orientation, pillow_faults, turn_upright

FORMATS = ("JPEG", "PNG", *map(str.upper, CONVERTIBLE))
"""Pillow's names of the supported formats: Pillow may use no other plug-in."""

MAX_DIFFERENCE = 6.0
"""Limit of two decoders' mean difference, of 255; rounding and chroma filters on noise cause less than 2."""

_BLOCK_ROWS = 256
_LARGE = 1 << 24  # pixels, 64 MB in Pillow's memory
_one_large = threading.RLock()


def read_pixels(stream: IO[bytes], *, upright: bool = False) -> np.ndarray:
    """Decode a whole image file with Pillow, strictly.

    Args:
        stream: the file.
        upright: apply the EXIF orientation; records are decoded without it.

    Returns:
        uint8 [H, W, 3], RGB. 16-bit channels are cut to their upper 8 bits, as when records are decoded.

    Raises:
        ImageFault: for an unsupported, undecodable or too large file.
    """
    with open_picture(stream) as picture:
        return _rgb(turn_upright(picture) if upright else picture)


def read_thumbnail(stream: IO[bytes], side: int) -> np.ndarray:
    """Decode an image file to a grey square, uint8 [side, side], with the EXIF orientation applied.

    The image is stretched, not cropped. A JPEG file is decoded at 1/2 to 1/8 of its size if that is large
    enough.

    Raises:
        ImageFault: as `read_pixels`.
    """
    from PIL import Image

    with open_picture(stream) as picture:
        picture.draft("RGB", (side, side))
        # Not through an array, which would take the same memory again.
        rgb = picture if picture.mode in ("L", "RGB") else Image.fromarray(_rgb(picture))
        small = rgb.convert("L").resize((side, side), Image.Resampling.BILINEAR)
        # Only the file has the orientation tag; it is applied to the square.
        return np.asarray(turn_upright(small, noted_orientation(picture)))


@contextlib.contextmanager
def one_large(pixels: int) -> Iterator[None]:
    """Let one thread at a time into the block for a large image; the lock is reentrant."""
    if pixels <= _LARGE:
        yield
        return
    with _one_large:
        # Return freed memory to the system; glibc would keep it for the thread.
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
        yield


@contextlib.contextmanager
def open_picture(stream: IO[bytes]) -> Iterator[Any]:
    """Open an image for the block, and convert Pillow's errors there to ImageFault.

    Large images are open one at a time across threads, because each takes hundreds of megabytes.
    """
    from PIL import Image

    with (
        pillow_faults("undecodable_image", _undecodable),
        Image.open(stream, formats=list(FORMATS)) as picture,
    ):
        check_size(picture.height, picture.width)
        with one_large(picture.height * picture.width):
            yield picture


def _undecodable(error: Exception) -> str:
    found = re.sub(" <.* at 0x.*>", "", str(error))  # the address of a stream, another one in each run
    early = "truncated" in found.lower()
    detail = f", as the file ends too early ({found}); copy it again" if early else f" ({found})"
    return f"expected an image, found a file that Pillow cannot decode{detail}"


def _rgb(picture: Any) -> np.ndarray:
    if picture.mode.startswith("I;16"):  # Pillow would turn all values above 255 white
        upper = (np.asarray(picture).astype(np.uint16) >> 8).astype(np.uint8)
        return np.repeat(upper[..., np.newaxis], 3, axis=-1)
    if picture.mode in ("I", "F"):
        raise ImageFault(
            "unsupported_image",
            f"expected at most 16 bits a channel, found mode {picture.mode}; save it as PNG",
        )
    rgb = picture if picture.mode == "RGB" else picture.convert("RGB")
    if rgb.height * rgb.width <= _LARGE:
        return np.asarray(rgb)
    # Pillow exports bytes in pieces and joins them, which takes twice the image's memory.
    pixels: np.ndarray = np.empty((rgb.height, rgb.width, 3), np.uint8)
    for row in range(0, rgb.height, _BLOCK_ROWS):
        last = min(row + _BLOCK_ROWS, rgb.height)
        pixels[row:last] = np.asarray(rgb.crop((0, row, rgb.width, last)))
    return pixels


def check_with_pillow(data: bytes) -> None:
    """Decode an image with Pillow, without TensorFlow. Raises ImageFault as `read_pixels`."""
    with open_picture(io.BytesIO(data)) as picture:
        picture.load()  # without an array, which for a large image takes the same memory again


def check_with_both(data: bytes) -> None:
    """Decode an image with Pillow and TensorFlow, and compare the pixels.

    If decoders disagree, for example on damaged tables, the annotator saw another image than the detector.

    Raises:
        ImageFault: as `read_pixels`, when TensorFlow cannot decode it, or when the two differ.
    """
    import tensorflow as tf

    from detection_core.data.decode import decode_pixels

    with open_picture(io.BytesIO(data)) as picture:
        pixels = picture.height * picture.width
    with one_large(pixels):
        ours = read_pixels(io.BytesIO(data))
        try:
            theirs = decode_pixels(tf.constant(data), channels=3).numpy()
        except tf.errors.ResourceExhaustedError:  # not the file's fault
            raise
        except tf.errors.OpError as e:
            reason = e.message.split("}} ")[-1].split(" [Op:")[0][:200]
            raise ImageFault("undecodable_image", f"TensorFlow cannot decode the file: {reason}") from e
        if ours.shape != theirs.shape:
            detail = f"Pillow reads {ours.shape[:2]} rows and columns, TensorFlow {theirs.shape[:2]}"
            raise ImageFault("decoders_differ", detail)
        difference = mean_difference(ours, theirs)
        if difference > MAX_DIFFERENCE:
            detail = f"the pixels of Pillow and TensorFlow differ by {difference:.1f} of 255 on average"
            raise ImageFault("decoders_differ", detail)


def mean_difference(one: np.ndarray, other: np.ndarray) -> float:
    """Return the mean absolute difference of two uint8 images, a few rows at a time."""
    total = 0
    for row in range(0, one.shape[0], _BLOCK_ROWS):
        rows = slice(row, row + _BLOCK_ROWS)
        total += int(np.abs(one[rows].astype(np.int16) - other[rows]).sum(dtype=np.int64))
    return total / max(1, one.size)


def mean_brightness(image: np.ndarray) -> float:
    """Return the mean of an image's values, uint8 [H, W, C], of every fourth row and column; NaN for none."""
    return round(float(image[::4, ::4].mean()), 2) if image.size else float("nan")
