"""Configs of our own with random changes, for property tests."""

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

from detection_core.config.problems import walk_messages
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.random_messages import is_map, messages, scalars

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
