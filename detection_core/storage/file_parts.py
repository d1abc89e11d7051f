"""Paths to a part of a file, such as an image in a TFRecord file, which may be compressed.

zlib unpacks only from the beginning. So zlib's states at some positions are kept while a file is unpacked. A
later read starts at the nearest one, as in zlib's example `zran.c`.
"""

import base64
import binascii
import bisect
import errno
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

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
        return read_packed(part.path, open_whole, part.offset, part.length)
    with open_whole() as file:
        file.seek(part.offset)
        data = bytes(file.read(part.length))
    try:
        return base64.b64decode(data, validate=True) if part.base64 else data
    except binascii.Error as e:
        raise OSError(errno.EINVAL, f"expected base64, found other text: {e}", part.path) from e


MOST_PLACES = 4096
"""States kept for all files together; each takes about 40 KB."""

_SPACING = 1 << 20
_CHUNK = 1 << 16
_GZIP = b"\x1f\x8b\x08"
_ANY_HEADER = 32 + zlib.MAX_WBITS  # gzip's or zlib's; zlib detects which


def is_packed(head: bytes) -> bool:
    """Return whether a file's first bytes are a gzip or zlib header."""
    is_zlib = len(head) > 1 and head[0] & 15 == 8 and head[0] >> 4 <= 7 and int.from_bytes(head[:2]) % 31 == 0
    return head.startswith(_GZIP) or is_zlib


def unpack_beginning(head: bytes, length: int) -> bytes:
    """Return up to `length` unpacked bytes from the beginning of a compressed file."""
    try:
        return zlib.decompressobj(_ANY_HEADER).decompress(head, length)
    except zlib.error:
        return b""


class _Place(NamedTuple):
    """A position where unpacking can start: in the content, in the file, and zlib's state."""

    content: int
    file: int
    state: Any


class PackedFile:
    """A compressed file of one or more consecutive gzip or zlib streams."""

    def __init__(self, open_file: Callable[[], IO[bytes]]) -> None:
        self._open = open_file
        self._places = [_Place(0, 0, zlib.decompressobj(_ANY_HEADER))]
        self._spacing = _SPACING

    @property
    def places(self) -> int:
        """Number of kept states."""
        return len(self._places)

    def thin(self) -> None:
        """Drop every second state."""
        self._places, self._spacing = self._places[::2], 2 * self._spacing

    def read(self, offset: int, length: int) -> bytes:
        """Return a range of the content, shorter at the end; OSError when unreadable or damaged."""
        found = bytearray()
        for at, piece in self.pieces(offset):
            found += piece[max(0, offset - at) :]
            if len(found) >= length:
                break
        return bytes(found[:length])

    def pieces(self, offset: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield pieces of the content with their positions, from the piece that contains `offset`.

        Raises:
            OSError: when the file cannot be read, is damaged, or is truncated.
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
                # gzip files may be padded with zeros.
                packed, ended = state.unused_data.lstrip(b"\0"), state.eof
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
    """Return an identity that changes when another file takes the name."""
    try:
        state = os.stat(path.removeprefix("file://"))
    except OSError:  # on a store, or missing
        return path
    return path, state.st_size, state.st_mtime_ns


_packed_files: dict[object, PackedFile] = {}
_reading = threading.Lock()


def read_packed(path: str, open_file: Callable[[], IO[bytes]], offset: int, length: int) -> bytes:
    """Return a range of a file's unpacked content; OSError when unreadable, damaged, or truncated."""
    with _reading:
        file = _packed_files.setdefault(_identity(path), PackedFile(open_file))
        found = file.read(offset, length)
        while sum(each.places for each in _packed_files.values()) > MOST_PLACES + len(_packed_files):
            max(_packed_files.values(), key=lambda each: each.places).thin()
    return found
