"""Annotated images as the JSON texts that a shard's list holds."""

from __future__ import annotations

import array
import base64
import binascii
import json
import struct
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    ImageLabel,
    Mask,
    MaskFile,
    Polygons,
    RunLengths,
)


def format_record(image: AnnotatedImage) -> str:
    """Return an image as a JSON text, a list of its fields."""
    objects = [_object_fields(item) for item in image.objects]
    more = list(image[_OBJECTS_AT + 1 :])
    while more and more[-1] == _MORE_UNSAID[len(more) - 1]:
        more.pop()
    return _encode([*image[:_OBJECTS_AT], objects, *more])


def read_record(fields: list[Any]) -> AnnotatedImage:
    """Return the image that `format_record` made a text of.

    Args:
        fields: the parsed text.
    """
    before, objects, more = fields[:_OBJECTS_AT], fields[_OBJECTS_AT], fields[_OBJECTS_AT + 1 :]
    labels = [ImageLabel(*label) for label in more[0]] if more else ()
    return AnnotatedImage._make([*before, [_object(*item) for item in objects], labels or (), *_rest(more)])


def _rest(more: list[Any]) -> list[Any]:
    return [*more[1:], *_MORE_UNSAID[max(1, len(more)) :]]


_encode = json.JSONEncoder(check_circular=False).encode


def _object_fields(item: AnnotatedObject) -> tuple[Any, ...]:
    said = item[: _LABEL_AT + 1]
    if item[_LABEL_AT + 1 :] == _UNSAID:
        return said
    return (*said, _mask_fields(item.mask), *item[_LABEL_AT + 2 :])


_OBJECTS_AT = AnnotatedImage._fields.index("objects")
_MORE_UNSAID = tuple(
    AnnotatedImage._field_defaults[name] for name in AnnotatedImage._fields[_OBJECTS_AT + 1 :]
)
_LABEL_AT = AnnotatedObject._fields.index("label")
_UNSAID = (None,) * (len(AnnotatedObject._fields) - _LABEL_AT - 1)


def _object(name: str, box: list[float], *rest: Any) -> AnnotatedObject:
    item = AnnotatedObject._make((name, tuple(box), *rest, *(_UNSAID if len(rest) < _LABEL_AT else ())))
    if item.keypoints is None and item.mask is None:
        return item
    points = None if item.keypoints is None else [(x, y, seen) for x, y, seen in item.keypoints]
    return item._replace(mask=_mask(rest[_LABEL_AT - 1]), keypoints=points)


def _mask_fields(mask: Mask | None) -> dict[str, Any] | None:
    if isinstance(mask, Polygons):
        # As text a number takes a hundred times as long to write and read, and masks are made of them.
        return {"rings": [binascii.b2a_base64(_doubles(ring), newline=False).decode() for ring in mask.rings]}
    if isinstance(mask, RunLengths):
        counts = mask.counts if isinstance(mask.counts, str) else list(mask.counts)
        return {"size": [mask.height, mask.width], "counts": counts}
    return None if mask is None else {"path": mask.path}


def _doubles(ring: Sequence[float]) -> bytes:
    if isinstance(ring, array.array) and ring.typecode == "d" and sys.byteorder == "little":
        return ring.tobytes()
    return struct.pack(f"<{len(ring)}d", *ring)


def _mask(fields: dict[str, Any] | None) -> Mask | None:
    if fields is None:
        return None
    if "rings" in fields:
        return Polygons([np.frombuffer(base64.b64decode(ring), "<f8") for ring in fields["rings"]])
    if "size" in fields:
        height, width = fields["size"]
        return RunLengths(height, width, fields["counts"])
    return MaskFile(fields["path"])
