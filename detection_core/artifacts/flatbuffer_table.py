"""Reader of untrusted flatbuffers: every offset and length is checked against the data's end.

Lists may share their bytes, so that a small file can stand for one of gigabytes. What is read in all is
bounded by the file's size.
"""

from __future__ import annotations

import dataclasses
import struct

# A file's lists are read a few times over, by one reader after another.
_READS = 8
_LEAST_BYTES = 2**16
# The smallest table takes as much, with its place in a list; readers make an object of each.
_TABLE_BYTES = 8
MAX_TABLES = 2**21


class FlatbufferError(ValueError):
    """An invalid offset, length or text in a flatbuffer."""


class _Allowance:
    """How many bytes and tables may still be read of a flatbuffer."""

    def __init__(self, size: int) -> None:
        self._bytes, self._tables = _READS * size + _LEAST_BYTES, MAX_TABLES

    def spend(self, count: int, tables: int = 0) -> None:
        self._bytes -= count
        self._tables -= tables
        if self._bytes < 0 or self._tables < 0:
            raise FlatbufferError("lists that share their bytes, many times over")


@dataclasses.dataclass(frozen=True)
class Table:
    """A flatbuffer table, read by the slots of its fields in the schema.

    Attributes:
        data: the whole flatbuffer.
        position: of the table in it.
        allowance: shared by all tables of the flatbuffer.
    """

    data: bytes
    position: int
    allowance: _Allowance

    @classmethod
    def root(cls, data: bytes) -> Table:
        """Return the table that a flatbuffer begins with.

        Raises:
            FlatbufferError: as every method does, for what lies outside the data.
        """
        return cls(data, _unpack("<I", data, 0), _Allowance(len(data)))

    def has(self, slot: int) -> bool:
        """Tell whether the table has a field."""
        return bool(self._field(slot))

    def number(self, slot: int, code: str, default: int = 0) -> int:
        """Return a field of the `struct` format `code`."""
        field = self._field(slot)
        return _unpack("<" + code, self.data, field) if field else default

    def float32(self, slot: int) -> float:
        """Return a field of 32 bits, 0 where the table does not have it."""
        field = self._field(slot)
        if not field:
            return 0.0
        (value,) = struct.unpack("<f", struct.pack("<I", _unpack("<I", self.data, field)))
        return float(value)

    def place(self, slot: int) -> int:
        """Return where a scalar field lies in the data, 0 where the table does not have it."""
        return self._field(slot)

    def start(self, slot: int) -> int:
        """Return where a vector of bytes begins in the data."""
        return self._vector(slot, 1)[1]

    def length(self, slot: int) -> int:
        """Return how many bytes a vector of bytes has."""
        return self._vector(slot, 1)[0]

    def raw(self, slot: int) -> bytes:
        """Return a vector of bytes."""
        count, start = self._vector(slot, 1)
        self.allowance.spend(count)
        return self.data[start : start + count]

    def text(self, slot: int) -> str:
        """Return a text."""
        try:
            return self.raw(slot).decode()
        except UnicodeDecodeError as error:
            raise FlatbufferError(f"a text that is no UTF-8 ({error.reason})") from error

    def floats(self, slot: int) -> tuple[float, ...]:
        """Return a vector of float32."""
        count, start = self._vector(slot, 4)
        self.allowance.spend(4 * count)
        return struct.unpack_from(f"<{count}f", self.data, start)

    def integers(self, slot: int) -> tuple[int, ...]:
        """Return a vector of int32."""
        count, start = self._vector(slot, 4)
        self.allowance.spend(4 * count)
        return struct.unpack_from(f"<{count}i", self.data, start)

    def longs(self, slot: int) -> tuple[int, ...]:
        """Return a vector of int64."""
        count, start = self._vector(slot, 8)
        self.allowance.spend(8 * count)
        return struct.unpack_from(f"<{count}q", self.data, start)

    def table(self, slot: int) -> Table:
        """Return a field that is a table."""
        field = self._field(slot)
        if not field:
            raise FlatbufferError("a table without one of its parts")
        self.allowance.spend(_TABLE_BYTES, 1)
        return Table(self.data, self._follow(field), self.allowance)

    def tables(self, slot: int) -> list[Table]:
        """Return a vector of tables."""
        count, start = self._vector(slot, 4)
        self.allowance.spend(_TABLE_BYTES * count, count)
        return [Table(self.data, self._follow(start + 4 * i), self.allowance) for i in range(count)]

    def _field(self, slot: int) -> int:
        """Return a field's position, 0 where the table does not have it."""
        layout = self.position - _unpack("<i", self.data, self.position)
        entry = 4 + 2 * slot
        if entry + 2 > _unpack("<H", self.data, layout):
            return 0
        offset = _unpack("<H", self.data, layout + entry)
        return self.position + offset if offset else 0

    def _follow(self, position: int) -> int:
        return position + _unpack("<I", self.data, position)

    def _vector(self, slot: int, size: int) -> tuple[int, int]:
        """Return a vector's length and the position of its first item, which has `size` bytes."""
        field = self._field(slot)
        if not field:
            return 0, 0
        start = self._follow(field)
        count = _unpack("<I", self.data, start)
        if start + 4 + count * size > len(self.data):
            raise FlatbufferError(f"a list of {count} items that ends behind the file's end")
        return count, start + 4


def _unpack(code: str, data: bytes, position: int) -> int:
    if not 0 <= position <= len(data) - struct.calcsize(code):
        raise FlatbufferError(f"an offset to byte {position} of {len(data)}")
    return int(struct.unpack_from(code, data, position)[0])
