"""Paths of a part of a file, such as an image in a TFRecord file."""

from __future__ import annotations

import re
from typing import NamedTuple

_PART = re.compile(r"part:(\d{1,18})\+(\d{1,18}):(.+)", re.DOTALL)


class FilePart(NamedTuple):
    """Some bytes of a file.

    Attributes:
        offset: of the first byte.
        length: how many.
        path: of the file.
    """

    offset: int
    length: int
    path: str


def part_path(part: FilePart) -> str:
    """Return the path of a part of a file, which `files.read_regular` reads."""
    return f"part:{part.offset}+{part.length}:{part.path}"


def file_part(path: str) -> FilePart | None:
    """Return the part of a file that a path means; None for the path of a whole file."""
    match = _PART.fullmatch(path)
    return FilePart(int(match[1]), int(match[2]), match[3]) if match else None
