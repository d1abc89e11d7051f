"""Paths to a part of a file, such as an image in a TFRecord file."""

from __future__ import annotations

import base64
import binascii
import errno
import re
from collections.abc import Callable
from typing import IO, NamedTuple

from detection_core.storage.packed_files import PackedFiles

_PACKED = PackedFiles()
_PART = re.compile(r"(part|packed|base64):(\d{1,18})\+(\d{1,18}):(.+)", re.DOTALL)


class FilePart(NamedTuple):
    """A range of bytes in a file.

    Attributes:
        offset: of the first byte.
        length: number of bytes.
        path: of the file.
        packed: whether the file is compressed; offset and length then refer to its content.
        base64: whether the bytes are base64 text.
    """

    offset: int
    length: int
    path: str
    packed: bool = False
    base64: bool = False


def part_path(part: FilePart) -> str:
    """Return the path of a part, for `files.read_regular`."""
    kind = "packed" if part.packed else "base64" if part.base64 else "part"
    return f"{kind}:{part.offset}+{part.length}:{part.path}"


def file_part(path: str) -> FilePart | None:
    """Parse a path to a part; None for the path of a whole file."""
    match = _PART.fullmatch(path)
    if not match:
        return None
    return FilePart(int(match[2]), int(match[3]), match[4], match[1] == "packed", match[1] == "base64")


def read_part(part: FilePart, limit: int, open_whole: Callable[[], IO[bytes]]) -> bytes:
    """Read and decode the bytes of a part; `open_whole` opens its file.

    Raises:
        OSError: when the part has more than `limit` bytes, should be base64 and is not, or cannot be read.
    """
    if part.length > limit * (1 + part.base64):
        raise OSError(errno.EFBIG, f"expected at most {limit:,} bytes, found {part.length:,}", part.path)
    if part.packed:
        return _PACKED.read(part.path, open_whole, part.offset, part.length)
    with open_whole() as file:
        file.seek(part.offset)
        data = bytes(file.read(part.length))
    try:
        return base64.b64decode(data, validate=True) if part.base64 else data
    except binascii.Error as e:
        raise OSError(errno.EINVAL, f"expected base64, found other text: {e}", part.path) from e
