import struct

import pytest

from detection_core.artifacts.flatbuffer_table import FlatbufferError, Table


def table() -> Table:
    data = bytearray(struct.pack("<I", 14))  # root: the table at 14
    data += struct.pack("<HHHHH", 10, 16, 4, 8, 12)  # its layout at 4: size, table's size, three fields
    data += struct.pack("<i", 10)  # at 14: back to the layout
    data += struct.pack("<III", 12, 14, 7)  # at 18: the text at 30, the integers at 36; a number
    data += struct.pack("<I", 2) + b"hi" + struct.pack("<Iii", 2, -5, 6)
    return Table.root(bytes(data))


def test_fields_are_read_by_their_slots_and_damage_is_an_error_of_its_own_kind():
    found = table()
    assert (found.text(0), found.integers(1), found.number(2, "I")) == ("hi", (-5, 6), 7)
    assert found.number(3, "I", 9) == 9 and found.raw(3) == b"" and not found.has(3)
    data = table().data
    for end in range(len(data)):
        with pytest.raises(FlatbufferError):
            cut = Table.root(data[:end])
            _ = cut.text(0), cut.integers(1), cut.number(2, "I")
    with pytest.raises(FlatbufferError, match="without one of its parts"):
        table().table(3)
    data = table().data.replace(b"hi", b"\xff\xfe")
    with pytest.raises(FlatbufferError, match="no UTF-8"):
        Table.root(data).text(0)
    data = bytearray(table().data)
    data[36:40] = struct.pack("<I", 2**31)
    with pytest.raises(FlatbufferError, match="a list of 2147483648 items"):
        Table.root(bytes(data)).integers(1)
