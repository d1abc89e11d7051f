"""Reading of compressed files from any place in their content.

zlib unpacks from the beginning only. So while a file is unpacked, the state of the unpacking is kept at
places on the way, and a later read begins at the nearest of them, as zlib's own example `zran.c` does.
"""

from __future__ import annotations

import bisect
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

MOST_PLACES = 4096
"""Kept of all files together. A state of zlib takes some 40 KB."""

_SPACING = 1 << 20
_CHUNK = 1 << 16
_GZIP = b"\x1f\x8b\x08"
_ANY_HEADER = 32 + zlib.MAX_WBITS  # gzip's or zlib's, zlib finds out which


def is_packed(head: bytes) -> bool:
    """Tell by its beginning whether a file is compressed as gzip or zlib do it."""
    is_zlib = len(head) > 1 and head[0] & 15 == 8 and head[0] >> 4 <= 7 and int.from_bytes(head[:2]) % 31 == 0
    return head.startswith(_GZIP) or is_zlib


def unpack_beginning(head: bytes, length: int) -> bytes:
    """Return up to so many bytes of what the beginning of a compressed file unpacks to."""
    try:
        return zlib.decompressobj(_ANY_HEADER).decompress(head, length)
    except zlib.error:
        return b""


class _Place(NamedTuple):
    """A place from which unpacking can begin: in the content, in the file, and zlib's state there."""

    content: int
    file: int
    state: Any


class PackedFile:
    """A compressed file, of one part or of several behind each other."""

    def __init__(self, open_file: Callable[[], IO[bytes]]) -> None:
        self._open = open_file
        self._places = [_Place(0, 0, zlib.decompressobj(_ANY_HEADER))]
        self._spacing = _SPACING

    @property
    def places(self) -> int:
        """How many states are kept."""
        return len(self._places)

    def thin(self) -> None:
        """Forget every second state."""
        self._places, self._spacing = self._places[::2], 2 * self._spacing

    def read(self, offset: int, length: int) -> bytes:
        """Return a part of the content; less where that ends.

        Raises:
            OSError: when the file cannot be read, or is damaged or cut.
        """
        found = bytearray()
        for at, piece in self.pieces(offset):
            found += piece[max(0, offset - at) :]
            if len(found) >= length:
                break
        return bytes(found[:length])

    def pieces(self, offset: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the content in pieces, each with its place, from the piece on that holds a place.

        Raises:
            OSError: when the file cannot be read, or is damaged or cut.
        """
        place = self._places[bisect.bisect_right(self._places, offset, key=lambda each: each.content) - 1]
        at, consumed, state = place.content, place.file, place.state.copy()
        with self._open() as file:
            file.seek(consumed)
            packed, ended = b"", False
            while packed := packed or file.read(_CHUNK):
                try:
                    piece = state.decompress(packed)
                except zlib.error as e:
                    raise OSError(f"damaged compressed data: {e}") from e
                consumed += len(packed) - len(state.unused_data)
                packed, ended = state.unused_data.lstrip(b"\0"), state.eof  # gzip may be padded with zeros
                consumed += len(state.unused_data) - len(packed)
                if ended:
                    state = zlib.decompressobj(_ANY_HEADER)
                if at + len(piece) > offset:
                    yield at, piece
                at += len(piece)
                if not ended and at >= self._places[-1].content + self._spacing:
                    self._places.append(_Place(at, consumed, state.copy()))
            if not ended:
                raise OSError("cut compressed data")


def _identity(path: str) -> object:
    """Return what tells a file from another of its name."""
    try:
        state = os.stat(path.removeprefix("file://"))
    except OSError:  # on a store, or not there
        return path
    return path, state.st_size, state.st_mtime_ns


class PackedFiles:
    """The compressed files that a process reads, whose states together are bounded."""

    def __init__(self) -> None:
        self._files: dict[object, PackedFile] = {}
        self._lock = threading.Lock()

    def read(self, path: str, open_file: Callable[[], IO[bytes]], offset: int, length: int) -> bytes:
        """Return a part of the content of a file.

        Args:
            path: of the file, local or remote.
            open_file: opens it.
            offset: in the content.
            length: likewise.

        Raises:
            OSError: when the file cannot be read, or is damaged or cut.
        """
        with self._lock:
            file = self._files.setdefault(_identity(path), PackedFile(open_file))
            found = file.read(offset, length)
            while sum(each.places for each in self._files.values()) > MOST_PLACES + len(self._files):
                max(self._files.values(), key=lambda each: each.places).thin()
        return found
