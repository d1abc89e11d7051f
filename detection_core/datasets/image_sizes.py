"""Sizes of images as they are shown, for annotations in fractions of them."""

from __future__ import annotations

import concurrent.futures
import errno
import io
import os
import stat
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING

from detection_core.data.image_header import MAX_FILE_BYTES, ImageFault, read_header
from detection_core.data.orientation import UPRIGHT, noted_orientation, upright_size
from detection_core.datasets.annotated_images import Rejected
from detection_core.storage import files
from detection_core.storage.file_parts import file_part

if TYPE_CHECKING:
    from PIL import Image

_HEAD = 1 << 16
_REQUESTS = 16


def shown_sizes(paths: Sequence[str]) -> Iterator[tuple[int, int] | Rejected]:
    """Yield width and height of images in pixels, or why there is none.

    Only the beginning of a file is read, of those on an object store several at a time.

    Args:
        paths: of image files, local or remote.
    """
    if not any(map(files.is_remote, paths)):
        yield from map(_size_or_reason, paths)
        return
    with concurrent.futures.ThreadPoolExecutor(_REQUESTS) as requests:
        yield from requests.map(_size_or_reason, paths)


def _size_or_reason(path: str) -> tuple[int, int] | Rejected:
    try:
        return shown_size(path)
    except Rejected as e:
        return e


def shown_size(path: str) -> tuple[int, int]:
    """Return width and height of an image in pixels, turned as its EXIF orientation says.

    Raises:
        Rejected: when it is not there, or no image.
    """
    from PIL import Image

    try:
        with _open_beginning(path) as file, Image.open(file) as image:
            return _size_of(image)
    except (FileNotFoundError, NotADirectoryError) as e:
        raise Rejected("missing_image", "there is no such file") from e
    except Exception:  # Pillow's parsers raise almost anything
        return _size_of_whole(path)


def _open_beginning(path: str) -> IO[bytes]:
    if file_part(path):
        return io.BytesIO(files.read_regular(path, MAX_FILE_BYTES))
    if files.is_remote(path):
        with files.open_file(path, "rb") as file:
            return io.BytesIO(file.read(_HEAD))
    descriptor = os.open(path.removeprefix("file://"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "expected a regular file", path)
    return open(descriptor, "rb")


def _size_of(image: Image.Image) -> tuple[int, int]:
    # Of a PNG whose orientation stands behind the pixels, Pillow would have to decode these.
    # A TIFF it has turned already.
    is_noted = not {"exif", "xmp"}.isdisjoint(image.info) and image.format != "TIFF"
    return upright_size(*image.size, noted_orientation(image) if is_noted else UPRIGHT)


def _size_of_whole(path: str) -> tuple[int, int]:
    """Return the size of an image whose beginning does not tell it, or what is wrong with the file."""
    from PIL import Image

    try:
        data = files.read_regular(path, MAX_FILE_BYTES)
        read_header(data)
        with Image.open(io.BytesIO(data)) as image:
            return _size_of(image)
    except ImageFault as e:
        raise Rejected(e.reason, e.message) from e
    except Exception as e:
        raise Rejected("unreadable_image", f"the size of the image cannot be read: {e}") from e
