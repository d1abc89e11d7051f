"""Checked reading of untrusted flatbuffers, by the classes of a generated schema or by slots.

flatbuffers' own accessors truncate what ends beyond the data. They also follow vectors that share bytes, so a
small file can expand to gigabytes. Here every offset and length is checked against the data's size. The total
read is limited by the file's size.
"""

from typing import Any

import flatbuffers
import numpy as np
from flatbuffers import number_types as types

# Several readers each read a file's vectors.
_READS = 8
_LEAST_BYTES = 2**16
# The smallest table with its entry in a vector takes this many bytes; readers create an object for each.
_TABLE_BYTES = 8
MAX_TABLES = 2**21


class FlatbufferError(ValueError):
    """An invalid offset, length or text in a flatbuffer."""


class _Allowance:
    """Number of bytes and tables that may still be read of a flatbuffer."""

    def __init__(self, size: int) -> None:
        self._bytes, self._tables = _READS * size + _LEAST_BYTES, MAX_TABLES

    def spend(self, count: int, tables: int = 0) -> None:
        self._bytes -= count
        self._tables -= tables
        if self._bytes < 0 or self._tables < 0:
            raise FlatbufferError("lists that share their bytes, many times over")


class Table(flatbuffers.table.Table):
    """A table whose fields are read by their slots in the schema.

    The methods that generated classes call are checked, too (see `read_root`). Every method raises
    `FlatbufferError` for a position outside the data.

    Args:
        data: the whole flatbuffer, bytes or an array of uint8.
        position: of the table in it.
        allowance: shared by all tables of the flatbuffer.
    """

    def __init__(self, data: Any, position: int, allowance: _Allowance) -> None:
        super().__init__(data, position)
        self.allowance = allowance

    @classmethod
    def root(cls, data: Any, allowance: _Allowance | None = None) -> "Table":
        """Return the root table; a nested flatbuffer shares the allowance of the outer one."""
        allowance = allowance or _Allowance(len(data))
        return cls(data, cls(data, 0, allowance).Indirect(0), allowance)

    def Get(self, flags: Any, off: int) -> Any:
        """Return the number at a position."""
        if not 0 <= off <= len(self.Bytes) - flags.bytewidth:
            raise FlatbufferError(f"an offset to byte {off} of {len(self.Bytes)}")
        return flags.packer_type.unpack_from(self.Bytes, off)[0]

    def Indirect(self, off: int) -> int:
        """Return the position that the offset at `off` points to."""
        position = off + self.Get(types.UOffsetTFlags, off)
        self.Get(types.UOffsetTFlags, position)  # the smallest item at an offset
        return position

    def VectorLen(self, off: int) -> int:
        """Return the length of a vector of tables, texts or numbers of 4 bytes."""
        return self._vector(self.Pos + off, 4)[0]

    def String(self, off: int) -> bytes:
        """Return the text at a position."""
        count, start = self._vector(off, 1)
        self.allowance.spend(count)
        return bytes(self.Bytes[start : start + count])

    def GetVectorAsNumpy(self, flags: Any, off: int) -> Any:
        """Return a vector of numbers as an array that shares the data's memory."""
        count, start = self._vector(self.Pos + off, flags.bytewidth)
        return np.frombuffer(self.Bytes, types.to_numpy_type(flags), count, start)

    def _vector(self, place: int, size: int) -> tuple[int, int]:
        """Return a vector's length and the position of its first item of `size` bytes."""
        start = self.Indirect(place)
        count = self.Get(types.UOffsetTFlags, start)
        if start + 4 + count * size > len(self.Bytes):
            raise FlatbufferError(f"a list of {count} items that ends behind the file's end")
        return count, start + 4

    def place(self, slot: int) -> int:
        """Return a field's position in the data, 0 if the table lacks it."""
        offset = self.Offset(4 + 2 * slot)
        return self.Pos + offset if offset else 0

    def number(self, slot: int, flags: Any) -> Any:
        """Return a number field, 0 if missing; `flags` is its type in flatbuffers' `number_types`."""
        place = self.place(slot)
        return self.Get(flags, place) if place else 0

    def raw(self, slot: int) -> bytes:
        """Return a vector of bytes."""
        place = self.place(slot)
        return self.String(place) if place else b""

    def text(self, slot: int) -> str:
        """Return a text."""
        return decoded(self.raw(slot))

    def floats(self, slot: int) -> tuple[float, ...]:
        """Return a vector of float32."""
        offset = self.Offset(4 + 2 * slot)
        return self.taken(self.GetVectorAsNumpy(types.Float32Flags, offset)) if offset else ()

    def taken(self, values: Any) -> tuple[Any, ...]:
        """Return an array's numbers as Python numbers."""
        self.allowance.spend(values.nbytes)
        return tuple(values.tolist())

    def table(self, slot: int) -> "Table":
        """Return a field that is a table."""
        place = self.place(slot)
        if not place:
            raise FlatbufferError("a table without one of its parts")
        self.allowance.spend(_TABLE_BYTES, 1)
        return Table(self.Bytes, self.Indirect(place), self.allowance)

    def tables(self, slot: int) -> "list[Table]":
        """Return a vector of tables."""
        place = self.place(slot)
        count, start = self._vector(place, 4) if place else (0, 0)
        self.allowance.spend(_TABLE_BYTES * count, count)
        return [Table(self.Bytes, self.Indirect(start + 4 * i), self.allowance) for i in range(count)]


def read_root(kind: Any, data: Any) -> Any:
    """Return the root table as an object of its generated class `kind`.

    Its accessors of numbers and texts are checked; use `numbers`, `tables` and `checked` for others.
    """
    found = kind()
    found._tab = Table.root(data)
    return found


def decoded(text: bytes | None) -> str:
    """Return the text of a generated accessor as str, "" if missing."""
    try:
        return (text or b"").decode()
    except UnicodeDecodeError as error:
        raise FlatbufferError(f"a text that is no UTF-8 ({error.reason})") from error


def numbers(owner: Any, field: str) -> tuple[Any, ...]:
    """Return a vector of numbers by its name in the generated class."""
    values = getattr(owner, f"{field}AsNumpy")()
    return () if isinstance(values, int) else owner._tab.taken(values)  # 0 if missing


def tables(owner: Any, field: str) -> list[Any]:
    """Return a vector of tables by its name in the generated class."""
    count = getattr(owner, f"{field}Length")()
    owner._tab.allowance.spend(_TABLE_BYTES * count, count)
    return [checked(getattr(owner, field)(i), owner) for i in range(count)]


def checked(found: Any, owner: Any) -> Any:
    """Return a table from an accessor of `owner`, with its checks."""
    found._tab = Table(found._tab.Bytes, found._tab.Pos, owner._tab.allowance)
    return found
