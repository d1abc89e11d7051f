"""Records as `tf.train.Example`, with the Object Detection API's feature keys: write, read and merge them.

The messages are compiled apart from TensorFlow, whose import takes longer than encoding ten thousand images.
"""

import dataclasses
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from detection_core.protos.example_pb2 import BytesList, Example, Feature, FloatList, Int64List

Features = Mapping[str, Feature]
"""Key to feature."""

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


def encode_features(image: EncodedImage, columns: Mapping[str, Sequence[Any]]) -> dict[str, Feature]:
    """Return the features of an image and its objects, by key.

    The image's bytes are stored unchanged. `columns` are the other features' values by key, those that the
    source has.
    """
    return {
        "image/encoded": bytes_feature([image.data]),
        "image/filename": _texts_feature([image.filename]),
        "image/format": _texts_feature([image.format]),
        "image/height": int64_feature([image.height]),
        "image/key/sha256": _texts_feature([image.sha256]),
        "image/source_id": _texts_feature([image.source_id]),
        "image/width": int64_feature([image.width]),
        **{key: _ENCODERS[key](values) for key, values in columns.items()},
    }


def bytes_feature(values: Iterable[bytes]) -> Feature:
    """Return a feature of byte strings."""
    return Feature(bytes_list=BytesList(value=values))


def _texts_feature(values: Sequence[str]) -> Feature:
    return bytes_feature([text.encode() for text in values])


def float_feature(values: Iterable[float]) -> Feature:
    """Return a feature of float32."""
    return Feature(float_list=FloatList(value=values))


def int64_feature(values: Iterable[int]) -> Feature:
    """Return a feature of integers."""
    return Feature(int64_list=Int64List(value=values))


def serialise_features(features: Features) -> bytes:
    """Return the serialised example with these features; equal ones give equal bytes."""
    return Example(features={"feature": features}).SerializeToString(deterministic=True)


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
_ENCODERS: dict[str, Callable[..., Feature]] = {
    **dict.fromkeys(FLOAT_KEYS, float_feature),
    **dict.fromkeys(INTEGER_KEYS, int64_feature),
    **dict.fromkeys(TEXT_KEYS, _texts_feature),
    "image/object/mask": bytes_feature,
    "image/neg_category_ids": int64_feature,
    "image/not_exhaustive_category_ids": int64_feature,
}
"""Feature key to the encoder of its values."""


def parse_example(data: bytes) -> Example:
    """Return a serialised example; ValueError if it is none."""
    try:
        return Example.FromString(data)
    except DecodeError as e:
        raise ValueError(f"a damaged message ({e})") from e


def values_of(feature: Feature) -> Sequence[Any]:
    """Return a feature's values: byte strings, floats or integers."""
    kind = feature.WhichOneof("kind")
    return getattr(feature, kind).value if kind else ()


_MASK = "image/object/mask"
_MASKS = {_MASK, f"{_MASK}/weight"}
_KEYPOINTS = "image/object/keypoint/"
_LABELS = "image/class/"
_NEEDED = {
    "image/encoded", "image/filename", "image/height", "image/object/class/label", "image/object/class/text",
    "image/source_id", "image/width",
}  # fmt: skip
"""Keys that every record must have; any other key may be missing."""

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def merge_example(original: bytes, made: Features, size: tuple[int, int], *, turned: bool) -> bytes:
    """Return a record with its changed features replaced; if nothing changed, `original` itself.

    Args:
        original: the record, with checked features.
        made: key to the feature that ingest makes from the record.
        size: columns and rows of the image in `made`.
        turned: whether ingest turned the image, so that the masks in `made` are needed.

    Raises:
        ValueError: when `original` is not an example, or a turned image has masks stored as numbers.
    """
    if serialise_features(made) == original:  # ingest wrote the record itself
        return original
    example = parse_example(original)
    own = example.features.feature
    masks = values_of(own[_MASK]) if _MASK in own else ()
    are_files = all(isinstance(mask, bytes) for mask in masks)
    if turned and not are_files:
        raise ValueError("masks as numbers, in a turned image; store them as PNG")
    # Every decoder reads a PNG file of the image's size.
    png = _PNG_SIGNATURE, struct.pack(">II", *size)
    kept = not turned and (not are_files or all((mask[:8], mask[16:24]) == png for mask in masks))
    changed = {
        key: feature
        for key, feature in made.items()
        if not (key in _MASKS and kept)
        and not (key.startswith(_LABELS) and key in own)
        and _content(own.get(key)) != _content(feature)
        and (key in own or key in _NEEDED or key in _MASKS)
    }
    if any(key.startswith(_KEYPOINTS) for key in changed):  # keypoint features form one table
        changed |= {key: feature for key, feature in made.items() if key.startswith(_KEYPOINTS)}
    if not changed:
        return original
    for key, feature in changed.items():
        own[key].CopyFrom(feature)
    return example.SerializeToString(deterministic=True)


def _content(feature: Feature | None) -> bytes:
    """Return a feature's kind and values in one form; a feature without values is as good as none."""
    return feature.SerializeToString() if feature is not None and values_of(feature) else b""
