"""Records as `tf.train.Example`, with the Object Detection API's feature keys: write, read and merge them.

The messages are compiled apart from TensorFlow, whose import takes longer than encoding ten thousand images.
"""

import dataclasses
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from detection_core.protos.example_pb2 import Example, Feature

ExampleMessage = Example
"""A record before it is serialised, for modules that know no proto."""

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


def encode_example(image: EncodedImage, columns: Mapping[str, Sequence[Any]]) -> Example:
    """Return the example of an image and its objects.

    The image's bytes are stored unchanged. `columns` are the other features' values by key, those that the
    source has.
    """
    example = Example()
    for field, key in _IMAGE_KEYS.items():
        set_values(example, key, [getattr(image, field)])
    for key, values in columns.items():
        set_values(example, key, values)
    return example


def set_values(example: Example, key: str, values: Sequence[Any]) -> None:
    """Add a known feature; texts are stored in UTF-8. An image is copied once, which is most of the time."""
    kept = getattr(example.features.feature[key], _KINDS[key])
    kept.value.extend([value.encode() if isinstance(value, str) else value for value in values])
    if not values:
        kept.SetInParent()


def serialise(example: Example) -> bytes:
    """Return the bytes of an example; equal examples give equal bytes."""
    return example.SerializeToString(deterministic=True)


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
_IMAGE_KEYS = {
    "data": "image/encoded", "filename": "image/filename", "format": "image/format", "height": "image/height",
    "sha256": "image/key/sha256", "source_id": "image/source_id", "width": "image/width",
}  # fmt: skip
"""Field of `EncodedImage` to its key."""
_KINDS = {
    **dict.fromkeys([*_IMAGE_KEYS.values(), *TEXT_KEYS, "image/object/mask"], "bytes_list"),
    **dict.fromkeys(FLOAT_KEYS, "float_list"),
    **dict.fromkeys(INTEGER_KEYS, "int64_list"),
    **dict.fromkeys(["image/height", "image/width", TILE], "int64_list"),
    **dict.fromkeys(["image/neg_category_ids", "image/not_exhaustive_category_ids"], "int64_list"),
}
"""Feature key to its kind of values."""


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


def merge_example(original: bytes, made: Example, size: tuple[int, int], *, turned: bool) -> bytes:
    """Return a record with its changed features replaced; if nothing changed, `original` itself.

    Args:
        original: the record, with checked features.
        made: what ingest makes from the record.
        size: columns and rows of the image in `made`.
        turned: whether ingest turned the image, so that the masks in `made` are needed.

    Raises:
        ValueError: when `original` is not an example, or a turned image has masks stored as numbers.
    """
    if serialise(made) == original:  # ingest wrote the record itself
        return original
    example = parse_example(original)
    own, new = example.features.feature, made.features.feature
    masks = values_of(own[_MASK]) if _MASK in own else ()
    are_files = all(isinstance(mask, bytes) for mask in masks)
    if turned and not are_files:
        raise ValueError("masks as numbers, in a turned image; store them as PNG")
    # Every decoder reads a PNG file of the image's size.
    png = _PNG_SIGNATURE, struct.pack(">II", *size)
    kept = not turned and (not are_files or all((mask[:8], mask[16:24]) == png for mask in masks))
    changed = {
        key: feature
        for key, feature in new.items()
        if not (key in _MASKS and kept)
        and not (key.startswith(_LABELS) and key in own)
        and _content(own.get(key)) != _content(feature)
        and (key in own or key in _NEEDED or key in _MASKS)
    }
    if any(key.startswith(_KEYPOINTS) for key in changed):  # keypoint features form one table
        changed |= {key: feature for key, feature in new.items() if key.startswith(_KEYPOINTS)}
    if not changed:
        return original
    for key, feature in changed.items():
        own[key].CopyFrom(feature)
    return serialise(example)


def _content(feature: Feature | None) -> bytes:
    """Return a feature's kind and values in one form; a feature without values is as good as none."""
    return feature.SerializeToString() if feature is not None and values_of(feature) else b""
