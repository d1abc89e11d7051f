"""Check that a tf.Example's columns agree, and name a bad record by its image."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from tensorflow.core.example.example_pb2 import Example

SIDES = tuple(f"image/object/bbox/{side}" for side in ("ymin", "xmin", "ymax", "xmax"))
CLASS_COLUMNS = ("image/object/class/text", "image/object/class/label")
"""At least one of them has an entry per box."""

OPTIONAL_COLUMNS = (
    "image/object/weight",
    "image/object/is_crowd",
    "image/object/area",
    "image/object/difficult",
    "image/object/group_of",
    "image/object/class/confidence",
)
"""Optional columns; if present, they have an entry per box."""


def column_fault(record: bytes) -> str:
    """Name the columns of a serialised `tf.train.Example` with a wrong number of entries, or return ""."""
    try:
        feature = Example.FromString(record).features.feature
    except DecodeError:
        return "it is no tf.Example"
    counts = {
        key: len(getattr(value, value.WhichOneof("kind")).value) if value.WhichOneof("kind") else 0
        for key, value in feature.items()
    }
    boxes = counts.get(SIDES[0], 0)
    wrong = [key for key in SIDES if counts.get(key, 0) != boxes]
    wrong += [key for key in (*CLASS_COLUMNS, *OPTIONAL_COLUMNS) if counts.get(key, 0) not in (0, boxes)]
    if boxes and not any(counts.get(key, 0) for key in CLASS_COLUMNS):
        wrong.append(CLASS_COLUMNS[1])
    found = ", ".join(f"{counts.get(key, 0)} in {key}" for key in wrong)
    return f"expected an entry for each of {boxes} boxes, found {found}" if wrong else ""


def image_name(record: bytes) -> str:
    """Return a record's source id or file name, or both if they differ."""
    try:
        feature = Example.FromString(record).features.feature
    except DecodeError:
        return "without a name"
    names = []
    for key in ("image/source_id", "image/filename"):
        values = feature[key].bytes_list.value if key in feature else ()
        names += [value.decode("utf-8", "backslashreplace") for value in values[:1] if value]
    return ", ".join(dict.fromkeys(names)) or "without a name"


def encoded_image(record: bytes) -> bytes:
    """Return a record's image file; empty if it has none or is not a tf.Example."""
    try:
        feature = Example.FromString(record).features.feature
    except DecodeError:
        return b""
    values = feature["image/encoded"].bytes_list.value if "image/encoded" in feature else ()
    return bytes(values[0]) if values else b""
