import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.data.example_wire import Span, parse_example
from tests.support.cases import cases, refused

_KINDS = st.binary(max_size=300), st.floats(width=32, allow_nan=False), st.integers(-(1 << 63), (1 << 63) - 1)
_VALUES = st.one_of(*(st.lists(kind, max_size=4) for kind in _KINDS))


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=5), _VALUES, max_size=4))
def test_what_tensorflow_writes_is_read(features):
    from tensorflow.core.example.example_pb2 import Example

    example = Example()
    for name, values in features.items():
        feature = example.features.feature[name]
        if values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    data = example.SerializeToString()
    read = lambda at: data[at.begin : at.end] if isinstance(at, Span) else at  # noqa: E731
    assert {name: list(map(read, values)) for name, values in parse_example(data).items()} == features


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_an_example_or_none(data):
    with contextlib.suppress(ValueError):
        assert all(isinstance(name, str) for name in parse_example(data))


def test_lists_may_be_packed_or_not_and_a_cut_message_is_refused():
    packed = b"\x1a\x04\x0a\x02\x05\x07", b"\x1a\x03\x0a\x01\x05\x1a\x02\x08\x07"
    for numbers in (b"\x1a\x04\x08\x05\x08\x07", *packed):
        entry = b"\x0a\x01a\x12" + bytes([len(numbers)]) + numbers
        data = b"\x0a" + bytes([len(entry) + 2]) + b"\x0a" + bytes([len(entry)]) + entry
        assert parse_example(data)["a"] in ([5, 7], [7])
    for data in (b"\x0a\x7f", b"\x0a", b"\xff" * 11, b"\x0b\x00"):
        refused(ValueError, "a ", parse_example, data)


@cases(
    b"\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x07",
    b"\x12\x05\x1a\x03\x0a\x01\x07\x0a\x01a",  # the value before the key
    b"\x0a\x01b\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x07",  # two keys, of which the last counts
    b"\x0a\x01a\x12\x00\x12\x05\x1a\x03\x0a\x01\x07",  # likewise two values
    b"\x0a\x81\x00a\x12\x05\x1a\x03\x0a\x01\x07",  # a length of more bytes than it needs
)
def test_an_entry_means_the_same_in_every_form_that_protobuf_allows(*, entry):
    from tensorflow.core.example.example_pb2 import Example

    features = b"\x0a" + bytes([len(entry)]) + entry
    data = b"\x0a" + bytes([len(features)]) + features
    assert Example.FromString(data).features.feature["a"].int64_list.value == [7]
    assert parse_example(data) == {"a": [7]}
