"""Read serialised `tf.train.Example` messages without TensorFlow, and replace features.

Wire format: https://protobuf.dev/programming-guides/encoding/.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from detection_core.data.encode import serialise_features

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIELD_1, _FIELD_2 = 0x0A, 0x12  # tags of wire type _BYTES


class Span(NamedTuple):
    """Begin and end of some bytes of a record."""

    begin: int
    end: int


Feature = list[Span] | list[float] | list[int]


def parse_example(data: bytes) -> dict[str, Feature]:
    """Return an example's features: spans of byte strings, or numbers; ValueError when it is no example."""
    return {name: parse_feature(data, at) for name, at in find_features(data).items()}


def find_features(data: bytes) -> dict[str, Span]:
    """Find the span of each serialised `tf.train.Feature` in an example; ValueError when it is none."""
    features: dict[str, Span] = {}
    for field, features_at in _all_fields(data, Span(0, len(data))):
        if field != 1 or not isinstance(features_at, Span):
            continue
        for entry_field, entry in _fields(data, features_at):
            if entry_field == 1 and isinstance(entry, Span):
                name, place = _entry(data, entry)
                features[name] = place
    return features


def _entry(data: bytes, at: Span) -> tuple[str, Span]:
    # The usual layout: a key of less than 128 bytes, then the feature, which fills the rest.
    begin, end = at
    if end - begin > 2 and data[begin] == _FIELD_1 and data[begin + 1] < 0x80:
        key_end = begin + 2 + data[begin + 1]
        if key_end < end and data[key_end] == _FIELD_2:
            length, position = _varint(data, key_end + 1, end)
            if position + length == end:
                return data[begin + 2 : key_end].decode(), Span(position, end)
    name, value = "", Span(at.end, at.end)
    for field, content in _fields(data, at):
        if isinstance(content, Span):
            if field == 1:
                name = data[content.begin : content.end].decode()
            elif field == 2:
                value = content
    return name, value


def parse_feature(data: bytes, at: Span) -> Feature:
    """Return a serialised `tf.train.Feature`'s values, as spans or numbers; ValueError when it is none."""
    feature: Feature = []
    for field, content in _all_fields(data, at):
        if isinstance(content, Span):
            if field == 1:
                feature = [span for at, span in _fields(data, content) if at == 1 and isinstance(span, Span)]
            elif field == 2:
                feature = _floats(data, content)
            elif field == 3:
                feature = _integers(data, content)
    return feature


def _floats(data: bytes, at: Span) -> list[float]:
    found: list[float] = []
    for field, content in _all_fields(data, at):
        if field == 1 and isinstance(content, Span):
            if content.end - content.begin < 4:
                raise ValueError("a float of fewer than 4 bytes")
            found += struct.unpack(
                f"<{(content.end - content.begin) // 4}f", data[content.begin : content.end]
            )
    return found


def _integers(data: bytes, at: Span) -> list[int]:
    found: list[int] = []
    for field, content in _all_fields(data, at):
        if field != 1:
            continue
        if isinstance(content, int):
            found.append(_signed(content))
            continue
        position = content.begin
        packed = data[position : content.end]
        if packed.isascii():  # each takes one byte
            found += packed
            continue
        while position < content.end:
            value, position = _varint(data, position, content.end)
            found.append(_signed(value))
    return found


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _all_fields(data: bytes, at: Span) -> Iterable[tuple[int, Span | int]]:
    """Return a message's fields; a fast path handles the usual message with a single field."""
    begin, end = at
    if end - begin > 1 and data[begin] & 7 == _BYTES and data[begin] < 0x80:
        length, position = _varint(data, begin + 1, end)
        if position + length == end:
            return ((data[begin] >> 3, Span(position, end)),)
    return _fields(data, at)


def _fields(data: bytes, at: Span) -> Iterator[tuple[int, Span | int]]:
    """Yield each field's number and its span, or a varint's value."""
    position = at.begin
    while position < at.end:
        tag, position = _varint(data, position, at.end)
        kind = tag & 7
        if kind == _VARINT:
            value, position = _varint(data, position, at.end)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            length, position = _varint(data, position, at.end)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"a field of the unknown kind {kind}")
        if length > at.end - position:
            raise ValueError("a field that is longer than its message")
        yield tag >> 3, Span(position, position + length)
        position += length


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    if position < end and data[position] < 0x80:  # the usual case
        return data[position], position + 1
    value = 0
    for shift in range(0, 70, 7):
        if position >= end:
            raise ValueError("a number that ends too early")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), position
    raise ValueError("a number of more than 64 bits")


_MASK = "image/object/mask"
_MASKS = frozenset({_MASK, f"{_MASK}/weight"})
_KEYPOINTS = "image/object/keypoint/"
_LABELS = "image/class/"
_NEEDED = frozenset(
    {
        "image/encoded",
        "image/filename",
        "image/height",
        "image/object/class/label",
        "image/object/class/text",
        "image/source_id",
        "image/width",
    }
)
"""Keys that every record must have; any other key may be missing."""

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def merge_example(
    original: bytes, made: Mapping[str, bytes], size: tuple[int, int], *, turned: bool
) -> bytes:
    """Return a record with its changed features replaced; if nothing changed, `original` itself.

    Args:
        original: the record, with checked features.
        made: key to the serialised feature that ingest makes from the record.
        size: columns and rows of the image in `made`.
        turned: whether ingest turned the image, so that the masks in `made` are needed.

    Raises:
        ValueError: when `original` is not an example, or a turned image has masks stored as numbers.
    """
    if serialise_features(made) == original:  # ingest wrote the record itself
        return original
    places = find_features(original)
    masks = _values(original, places[_MASK]) if _MASK in places else []
    if turned and any(kind is not bytes for kind, _ in masks):
        raise ValueError("masks as numbers, in a turned image; store them as PNG")
    # Every decoder reads a PNG file of the image's size.
    png = _PNG_SIGNATURE, struct.pack(">II", *size)
    kept = not turned and all(kind is not bytes or (mask[:8], mask[16:24]) == png for kind, mask in masks)
    changed = {
        key: feature
        for key, feature in made.items()
        if not (key in _MASKS and kept)
        and not (key.startswith(_LABELS) and key in places)
        and not _is_same(original, places.get(key), feature)
        and (key in places or key in _NEEDED or key in _MASKS)
    }
    if any(key.startswith(_KEYPOINTS) for key in changed):  # keypoint features form one table
        changed |= {key: feature for key, feature in made.items() if key.startswith(_KEYPOINTS)}
    if not changed:
        return original
    features = {key: original[at.begin : at.end] for key, at in places.items()}
    return serialise_features({**features, **changed})


def _is_same(original: bytes, at: Span | None, feature: bytes) -> bool:
    if at is not None and original[at.begin : at.end] == feature:
        return True
    own = _values(original, at) if at is not None else []
    return own == _values(feature, Span(0, len(feature)))


def _values(data: bytes, at: Span) -> list[tuple[type, Any]]:
    """Return a feature's values with their types, because 1 and 1.0 are equal."""
    return [
        (bytes, data[value.begin : value.end]) if isinstance(value, Span) else (type(value), value)
        for value in parse_feature(data, at)
    ]
