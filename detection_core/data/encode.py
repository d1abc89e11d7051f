"""Serialise annotated images as `tf.train.Example`, with the Object Detection API's feature keys.

The wire format is written without TensorFlow, whose import takes longer than encoding ten thousand images.
Features have a fixed order, so that equal fields give equal bytes. The bytes equal those of protobuf's
deterministic serialisation.
"""

import dataclasses
import functools
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

# Field numbers of tensorflow.Feature's oneof, as tags of a length-delimited field.
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = b"\x0a", b"\x12", b"\x1a"
_FIELD_1, _FIELD_2 = b"\x0a", b"\x12"


TILE = "image/tile"
"""Key of the left and top edge of a tile in its image, pixels; only records of tiles have it."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class EncodedImage:
    """An image for storage.

    Attributes:
        data: the JPEG or PNG file's bytes.
        sha256: of `data`, in hexadecimal digits.
        format: `jpeg` or `png`.
        height: rows in pixels.
        width: columns in pixels.
        filename: name of the file in the data set.
        source_id: id of the image, unique in its split.
    """

    data: bytes
    sha256: str
    format: str
    height: int
    width: int
    filename: str
    source_id: str


def encode_features(image: EncodedImage, columns: Mapping[str, Sequence[Any]]) -> dict[str, bytes]:
    """Return the serialised features of an image and its objects, by key.

    The image's bytes are stored unchanged. `columns` are the other features' values by key, those that the
    source has.

    Raises:
        ValueError: when a float does not fit float32.
    """
    return {
        "image/encoded": bytes_feature([image.data]),
        "image/filename": bytes_feature([image.filename.encode()]),
        "image/format": _texts_feature([image.format]),
        "image/height": int64_feature([image.height]),
        "image/key/sha256": bytes_feature([image.sha256.encode()]),
        "image/source_id": bytes_feature([image.source_id.encode()]),
        "image/width": int64_feature([image.width]),
        **{key: _ENCODERS[key](values) for key, values in columns.items()},
    }


def bytes_feature(values: Iterable[bytes]) -> bytes:
    """Return a serialised `tf.train.Feature` of byte strings."""
    parts = [_BYTES_LIST, b""]
    size = 0
    for value in values:
        length = _varint(len(value))
        parts += (_FIELD_1, length, value)
        size += 1 + len(length) + len(value)
    parts[1] = _varint(size)
    return b"".join(parts)  # joined once, because images are large


def float_feature(values: Sequence[float]) -> bytes:
    """Return a serialised `tf.train.Feature` of float32; ValueError for finite values beyond float32."""
    try:
        packed = struct.pack(f"<{len(values)}f", *values)
    except OverflowError as e:
        raise ValueError(f"expected float32 values, found {values!r}") from e
    return _packed_head(_FLOAT_LIST, len(packed)) + packed


def int64_feature(values: Sequence[int]) -> bytes:
    """Return a serialised `tf.train.Feature` of integers; negative ones in two's complement."""
    try:
        packed = bytes(values)  # flags and most classes fit one byte
    except ValueError:
        packed = b"\xff"
    if not packed.isascii():
        packed = b"".join([_varint(value & 0xFFFFFFFFFFFFFFFF) for value in values])
    return _packed_head(_INT64_LIST, len(packed)) + packed


@functools.lru_cache(maxsize=4096)
def _packed_head(kind: bytes, length: int) -> bytes:
    """Return the bytes before a list's packed values; cached, because most images share them."""
    if not length:
        return kind + _varint(0)
    head = _FIELD_1 + _varint(length)
    return kind + _varint(len(head) + length) + head


def serialise_features(features: Mapping[str, bytes]) -> bytes:
    """Return the serialised `tf.train.Example` with these serialised features, sorted by key."""
    parts = [_FIELD_1, b""]
    size = 0
    for key in sorted(features):
        feature = features[key]
        head = _feature_head(key, len(feature))
        parts += (head, feature)
        size += len(head) + len(feature)
    parts[1] = _varint(size)
    # Joined once: copying an image at every level of nesting takes as long as its checksum.
    return b"".join(parts)


@functools.lru_cache(maxsize=1 << 14)
def _feature_head(key: str, length: int) -> bytes:
    """Return the bytes before a feature of this length; cached, because images share most of them."""
    head = _text_value(key) + _FIELD_2 + _varint(length)
    return _FIELD_1 + _varint(len(head) + length) + head


def _texts_feature(values: Sequence[str]) -> bytes:
    return _delimited(_BYTES_LIST, b"".join([_text_value(value) for value in values]))


FLOAT_KEYS = (
    *(f"image/object/bbox/{side}" for side in ("xmin", "ymin", "xmax", "ymax")), "image/object/area",
    "image/object/class/confidence", "image/object/weight", "image/object/mask/weight",
    "image/object/keypoint/x", "image/object/keypoint/y", "image/class/confidence",
)  # fmt: skip
INTEGER_KEYS = (
    "image/object/class/label", "image/object/is_crowd", "image/object/difficult", "image/object/truncated",
    "image/object/group_of", "image/object/occluded", "image/object/depiction", "image/object/keypoint/num",
    "image/object/keypoint/visibility", "image/class/label",
)  # fmt: skip
TEXT_KEYS = (
    "image/object/class/text", "image/object/view", "image/object/keypoint/text", "image/class/text",
)  # fmt: skip
_ENCODERS: dict[str, Callable[..., bytes]] = {
    **dict.fromkeys(FLOAT_KEYS, float_feature),
    **dict.fromkeys(INTEGER_KEYS, int64_feature),
    **dict.fromkeys(TEXT_KEYS, _texts_feature),
    "image/object/mask": bytes_feature,
    "image/neg_category_ids": int64_feature,
    "image/not_exhaustive_category_ids": int64_feature,
}
"""Feature key to the encoder of its values."""


@functools.lru_cache(maxsize=4096)
def _text_value(text: str) -> bytes:
    """Return field 1 of a message; cached, because images share keys and class names."""
    return _delimited(_FIELD_1, text.encode())


def _delimited(tag: bytes, payload: bytes) -> bytes:
    return tag + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    if value < 128:
        return _SHORT[value]
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_SHORT = [bytes([value]) for value in range(128)]
