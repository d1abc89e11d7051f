"""Serialise annotated images as `tf.train.Example`, with the Object Detection API's feature keys.

The wire format is written without TensorFlow, whose import takes longer than encoding ten thousand images.
Features have a fixed order, so that equal fields give equal bytes. The bytes equal those of protobuf's
deterministic serialisation.
"""

import dataclasses
import functools
import operator
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence

# Field numbers of tensorflow.Feature's oneof, as tags of a length-delimited field.
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = b"\x0a", b"\x12", b"\x1a"
_FIELD_1, _FIELD_2 = b"\x0a", b"\x12"


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


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class KeypointColumns:
    """The keypoints of one image's objects: the same number and order for every object.

    Attributes:
        y: as a fraction of the image's height.
        x: as a fraction of the image's width.
        visibility: 0 not labelled, 1 labelled but hidden, 2 visible.
        texts: names.
        numbers: labelled keypoints of each object.
    """

    y: Sequence[float]
    x: Sequence[float]
    visibility: Sequence[int]
    texts: Sequence[str]
    numbers: Sequence[int]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ImageLabels:
    """Image-level classes; every column has one entry per class.

    Attributes:
        labels: ids of the label map, 1 or more.
        texts: class names.
        confidences: 1: verified as present; 0: verified as absent.
    """

    labels: Sequence[int]
    texts: Sequence[str]
    confidences: Sequence[float]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ObjectColumns:
    """The objects of one image; every column has one entry per object. None: not in the source.

    Attributes:
        ymin: upper edges, as a fraction of the image's height.
        xmin: left edges, as a fraction of the image's width.
        ymax: lower edges.
        xmax: right edges.
        labels: ids of the label map, 1 or more.
        texts: class names.
        is_crowd: 1 where the box surrounds a group.
        area: of the object, in square pixels.
        difficult: 1 where the annotator marked the object as hard.
        truncated: 1 where the object extends beyond the image.
        views: the pose in the annotator's words.
        masks: PNG files of the image's size, 1 on the object.
        mask_weights: training weights of the masks.
        group_of: 1 where the box surrounds several objects that touch.
        occluded: 1 where a part is hidden.
        depiction: 1 for a drawing or a statue.
        confidences: of the class, 0 to 1.
        weights: training weights of the objects.
    """

    ymin: Sequence[float]
    xmin: Sequence[float]
    ymax: Sequence[float]
    xmax: Sequence[float]
    labels: Sequence[int]
    texts: Sequence[str]
    is_crowd: Sequence[int]
    area: Sequence[float]
    difficult: Sequence[int] | None = None
    truncated: Sequence[int] | None = None
    views: Sequence[str] | None = None
    masks: Sequence[bytes] | None = None
    mask_weights: Sequence[float] | None = None
    group_of: Sequence[int] | None = None
    occluded: Sequence[int] | None = None
    depiction: Sequence[int] | None = None
    confidences: Sequence[float] | None = None
    weights: Sequence[float] | None = None


def encode_features(
    image: EncodedImage,
    objects: ObjectColumns,
    keypoints: KeypointColumns | None = None,
    labels: ImageLabels | None = None,
) -> dict[str, bytes]:
    """Return the serialised features of an image and its objects, by key.

    The image's bytes are stored unchanged. All columns of `objects` have the same length, which may be 0.
    Without keypoints or labels in the source, pass None.

    Raises:
        ValueError: when the columns differ in length, or a float does not fit float32.
    """
    lengths = {len(column) for column in _columns_of(objects) if column is not None}
    if len(lengths) != 1:
        raise ValueError(f"columns differ in length: {sorted(lengths)}")
    features = {
        "image/encoded": bytes_feature([image.data]),
        "image/filename": bytes_feature([image.filename.encode()]),
        "image/format": _texts_feature([image.format]),
        "image/height": int64_feature([image.height]),
        "image/key/sha256": bytes_feature([image.sha256.encode()]),
        "image/object/area": float_feature(objects.area),
        "image/object/bbox/xmax": float_feature(objects.xmax),
        "image/object/bbox/xmin": float_feature(objects.xmin),
        "image/object/bbox/ymax": float_feature(objects.ymax),
        "image/object/bbox/ymin": float_feature(objects.ymin),
        "image/object/class/label": int64_feature(objects.labels),
        "image/object/class/text": _texts_feature(objects.texts),
        "image/object/is_crowd": int64_feature(objects.is_crowd),
        "image/source_id": bytes_feature([image.source_id.encode()]),
        "image/width": int64_feature([image.width]),
    }
    for key, (column, encode) in _OPTIONAL.items():
        values = getattr(objects, column)
        if values is not None:
            features[key] = encode(values)
    if keypoints is not None:
        features |= _keypoint_features(keypoints, len(objects.labels))
    if labels is not None:
        features["image/class/confidence"] = float_feature(labels.confidences)
        features["image/class/label"] = int64_feature(labels.labels)
        features["image/class/text"] = _texts_feature(labels.texts)
    return features


def _keypoint_features(keypoints: KeypointColumns, objects: int) -> dict[str, bytes]:
    lengths = {len(keypoints.y), len(keypoints.x), len(keypoints.visibility), len(keypoints.texts)}
    count = max(lengths)
    if len(lengths) > 1 or len(keypoints.numbers) != objects or (count % objects if objects else count):
        raise ValueError(f"keypoint columns differ in length, or do not fit {objects} objects: {lengths}")
    return {
        "image/object/keypoint/num": int64_feature(keypoints.numbers),
        "image/object/keypoint/text": _texts_feature(keypoints.texts),
        "image/object/keypoint/visibility": int64_feature(keypoints.visibility),
        "image/object/keypoint/x": float_feature(keypoints.x),
        "image/object/keypoint/y": float_feature(keypoints.y),
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


_OPTIONAL: dict[str, tuple[str, Callable[..., bytes]]] = {
    "image/object/class/confidence": ("confidences", float_feature),
    "image/object/depiction": ("depiction", int64_feature),
    "image/object/difficult": ("difficult", int64_feature),
    "image/object/group_of": ("group_of", int64_feature),
    "image/object/mask": ("masks", bytes_feature),
    "image/object/mask/weight": ("mask_weights", float_feature),
    "image/object/occluded": ("occluded", int64_feature),
    "image/object/truncated": ("truncated", int64_feature),
    "image/object/view": ("views", _texts_feature),
    "image/object/weight": ("weights", float_feature),
}
"""Feature keys that a source may lack: their column of `ObjectColumns` and encoder."""


_columns_of = operator.attrgetter(*(field.name for field in dataclasses.fields(ObjectColumns)))


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
