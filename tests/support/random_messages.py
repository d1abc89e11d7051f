"""Random messages of any type and mutated configs, through descriptors, for property tests."""

import struct

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from detection_core.config.paths.field_paths import walk_messages
from detection_core.detectors.rules import message_name
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

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


# Values at which things break, small enough to build a network with.
INTEGERS = st.sampled_from([-1, 0, 1, 2, 3, 5, 8, 64])
EDGES = {
    FieldDescriptor.CPPTYPE_INT32: INTEGERS,
    FieldDescriptor.CPPTYPE_UINT32: st.sampled_from([0, 1, 2, 3, 5, 8, 64]),
    FieldDescriptor.CPPTYPE_FLOAT: st.sampled_from([-1.0, 0.0, 1e-8, 0.1, 0.5, 1.0, 2.0, 100.0]),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_STRING: st.sampled_from(["", "x", "ssd_mobilenet_v2_keras", "he_normal"]),
}


@st.composite
def mutated_configs(
    draw: st.DrawFn, configs: list[TrainEvalPipelineConfig], changes: int = 3
) -> TrainEvalPipelineConfig:
    """One of the configs with a few fields set, cleared, doubled or put to another arm of their oneof."""
    config = TrainEvalPipelineConfig()
    config.CopyFrom(draw(st.sampled_from(configs)))
    for _ in range(draw(st.integers(1, changes))):
        inside = [message for _, message in walk_messages(config) if message.DESCRIPTOR.fields]
        _change(draw, draw(st.sampled_from(inside)))
    return config


@st.composite
def edge_messages(draw: st.DrawFn, descriptor: Descriptor, fields: int = 3) -> Message:
    """A message of random fields, of which a few are then put to values at which things break."""
    message = draw(messages(descriptor, fields))
    message.SetInParent()
    for oneof in descriptor.oneofs:
        if message.WhichOneof(oneof.name) is None and draw(st.integers(0, 9)):
            getattr(message, draw(st.sampled_from(list(oneof.fields))).name).SetInParent()
    for _ in range(draw(st.integers(0, 3))):
        inside = [part for _, part in walk_messages(message) if part.DESCRIPTOR.fields]
        if inside:
            _change(draw, draw(st.sampled_from(inside)))
    return message


def _change(draw: st.DrawFn, message: Message) -> None:
    field = draw(st.sampled_from(list(message.DESCRIPTOR.fields)))
    value = getattr(message, field.name)
    if draw(st.integers(0, 3)) == 0:
        message.ClearField(field.name)
    elif is_map(field):
        return
    elif field.is_repeated:
        _change_list(draw, field, value)
    elif field.message_type is not None:
        value.CopyFrom(draw(messages(field.message_type, 2)))
        value.SetInParent()
    else:
        setattr(message, field.name, draw(_values(field)))


def _change_list(draw: st.DrawFn, field: FieldDescriptor, values: Message) -> None:
    if values and draw(st.booleans()):
        del values[draw(st.integers(0, len(values) - 1))]
    elif field.message_type is not None:
        values.add().CopyFrom(draw(messages(field.message_type, 2)))
    else:
        values.append(draw(_values(field)))


def _values(field: FieldDescriptor) -> st.SearchStrategy:
    if field.enum_type is not None:
        return scalars(field)
    return st.one_of(EDGES[field.cpp_type], EDGES[field.cpp_type], scalars(field))


def _messages() -> dict[str, Descriptor]:
    found, waiting = {}, [TrainEvalPipelineConfig.DESCRIPTOR]
    while waiting:
        message = waiting.pop()
        if message_name(message) not in found:
            found[message_name(message)] = message
            waiting += [field.message_type for field in message.fields if field.message_type is not None]
    return found


MESSAGES = _messages()
"""Every message type below the root, by its name in the rules; entries of maps, too."""
