"""Paths of a part of a file, such as an image in a TFRecord file."""

from __future__ import annotations

import re
from typing import NamedTuple

_PART = re.compile(r"(part|packed):(\d{1,18})\+(\d{1,18}):(.+)", re.DOTALL)


class FilePart(NamedTuple):
    """Some bytes of a file.

    Attributes:
        offset: of the first byte.
        length: how many.
        path: of the file.
        packed: the file is compressed; offset and length are in its content.
    """

    offset: int
    length: int
    path: str
    packed: bool = False


def part_path(part: FilePart) -> str:
    """Return the path of a part of a file, which `files.read_regular` reads."""
    return f"{'packed' if part.packed else 'part'}:{part.offset}+{part.length}:{part.path}"


def file_part(path: str) -> FilePart | None:
    """Return the part of a file that a path means; None for the path of a whole file."""
    match = _PART.fullmatch(path)
    return FilePart(int(match[2]), int(match[3]), match[4], match[1] == "packed") if match else None
