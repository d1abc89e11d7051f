"""Random messages of any type, through descriptors, for property tests."""

import struct

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

TEXTS = st.text(max_size=8)
KEYS = st.text(alphabet="abc xyz_.-/é", max_size=5)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
SCALARS = {
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_FLOAT: FLOATS,
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_STRING: TEXTS,
}


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor, fields: int = 3) -> Message:
    """A message with up to `fields` fields set on every level."""
    message = GetMessageClass(descriptor)()
    chosen = (
        draw(st.lists(st.sampled_from(list(descriptor.fields)), max_size=fields)) if descriptor.fields else []
    )
    for field in chosen:
        if is_map(field):
            _fill_map(draw, message, field)
        elif field.is_repeated:
            for _ in range(draw(st.integers(0, 2))):
                _append(draw, message, field)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(draw(messages(field.message_type, fields)))
            getattr(message, field.name).SetInParent()
        else:
            setattr(message, field.name, draw(scalars(field)))
    return message


def scalars(field: FieldDescriptor) -> st.SearchStrategy:
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    return SCALARS[field.cpp_type]


def _append(draw: st.DrawFn, message: Message, field: FieldDescriptor) -> None:
    if field.message_type is not None:
        getattr(message, field.name).add().CopyFrom(draw(messages(field.message_type)))
    else:
        getattr(message, field.name).append(draw(scalars(field)))


def _fill_map(draw: st.DrawFn, message: Message, field: FieldDescriptor) -> None:
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    key_value = draw(KEYS if key.cpp_type == FieldDescriptor.CPPTYPE_STRING else scalars(key))
    values = getattr(message, field.name)
    if value.message_type is not None:
        values[key_value].CopyFrom(draw(messages(value.message_type)))
    else:
        values[key_value] = draw(scalars(value))


def float_text(value: float) -> str:
    """Text that reads back to the same 32 bits."""
    assert struct.unpack("f", struct.pack("f", float(repr(value))))[0] == value
    return repr(value)
