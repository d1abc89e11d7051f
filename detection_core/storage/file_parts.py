"""Paths to a part of a file, such as an image in a TFRecord file."""

from __future__ import annotations

import base64
import binascii
import errno
import re
from typing import NamedTuple

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


def decode_part(part: FilePart, data: bytes) -> bytes:
    """Decode the bytes of a part.

    Raises:
        OSError: when they should be base64 and are not.
    """
    try:
        return base64.b64decode(data, validate=True) if part.base64 else data
    except binascii.Error as e:
        raise OSError(errno.EINVAL, f"expected base64, found other text: {e}", part.path) from e
