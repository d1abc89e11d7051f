"""Sizes of images as they are shown, found without reading their pixels."""

from __future__ import annotations

import concurrent.futures
import errno
import io
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING

from detection_core.data.image_header import MAX_FILE_BYTES, PNG_NOTES, ImageFault, read_header
from detection_core.data.orientation import UPRIGHT, noted_orientation, upright_size
from detection_core.datasets.annotated_images import Rejected
from detection_core.storage import files
from detection_core.storage.file_parts import file_part

if TYPE_CHECKING:
    from PIL import Image

_HEAD = 1 << 16
_REQUESTS = 16
_PNG_SIGNATURE_BYTES = 8


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
            return _size_of(image, file)
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


def _size_of(image: Image.Image, file: IO[bytes]) -> tuple[int, int]:
    # Pillow has turned a TIFF already. It decodes a PNG's pixels to see what stands behind them.
    is_noted = not {"exif", "xmp"}.isdisjoint(image.info) and image.format != "TIFF"
    is_noted = is_noted or (image.format == "PNG" and _is_noted_behind_pixels(file))
    return upright_size(*image.size, noted_orientation(image) if is_noted else UPRIGHT)


def _is_noted_behind_pixels(file: IO[bytes]) -> bool:
    """Tell whether a PNG may have an orientation behind its pixels.

    Raises:
        EOFError: when it is not all there.
    """
    at, pixels, kind = file.tell(), False, b""
    file.seek(_PNG_SIGNATURE_BYTES)
    while kind != b"IEND" and not (pixels and kind in PNG_NOTES):
        head = file.read(8)
        if len(head) < 8:
            raise EOFError
        length, kind = struct.unpack(">I4s", head)
        pixels = pixels or kind == b"IDAT"
        file.seek(length + 4, os.SEEK_CUR)
    file.seek(at)
    return kind != b"IEND"


def _size_of_whole(path: str) -> tuple[int, int]:
    """Return the size of an image whose beginning does not tell it, or what is wrong with the file."""
    from PIL import Image

    try:
        data = files.read_regular(path, MAX_FILE_BYTES)
        read_header(data)
        with io.BytesIO(data) as file, Image.open(file) as image:
            return _size_of(image, file)
    except ImageFault as e:
        raise Rejected(e.reason, e.message) from e
    except Exception as e:
        raise Rejected("unreadable_image", f"the size of the image cannot be read: {e}") from e
