"""Serialises annotated images as JSON for a shard's list."""

from __future__ import annotations

import array
import base64
import binascii
import json
import math
import struct
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

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
    """Return an image as JSON: a list of its fields, or two lists if it has masks, which come second."""
    objects = [_object_fields(item) for item in image.objects]
    more = list(image[_OBJECTS_AT + 1 :])
    while more and more[-1] == _MORE_DEFAULTS[len(more) - 1]:
        more.pop()
    fields = [*image[:_OBJECTS_AT], objects, *more]
    text = _encode(fields) if _is_finite(image.objects) else _encode_any(fields)
    masks = [_mask_text(item.mask) for item in image.objects]
    return f"[{text}, [{', '.join(masks)}]]" if any(mask != _NO_MASK for mask in masks) else text


def read_record(fields: list[Any]) -> AnnotatedImage:
    """Return the image that `format_record` serialised."""
    masks: list[Any] = []
    if isinstance(fields[0], list):
        fields, masks = fields
    before, objects, more = fields[:_OBJECTS_AT], fields[_OBJECTS_AT], fields[_OBJECTS_AT + 1 :]
    items = [_object(*item) for item in objects]
    if masks:
        items = [item._replace(mask=_mask(mask)) for item, mask in zip(items, masks, strict=True)]
    labels = [ImageLabel(*label) for label in more[0]] if more else ()
    return AnnotatedImage._make([*before, items, labels or (), *_rest(more)])


def _rest(more: list[Any]) -> list[Any]:
    return [*more[1:], *_MORE_DEFAULTS[max(1, len(more)) :]]


_encode_any = json.JSONEncoder(check_circular=False).encode


def _encode(value: Any) -> str:
    """Return a value without NaN and infinity as JSON text; orjson would write those as null."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # a lone surrogate, an integer of more than 64 bits, a named tuple
        return _encode_any(value)


def _is_finite(objects: Sequence[AnnotatedObject]) -> bool:
    """Return whether all numbers are finite and the objects have boxes only, as orjson requires."""
    for item in objects:
        xmin, ymin, xmax, ymax = item.box
        if not math.isfinite(xmin + ymin + xmax + ymax + item.area) or item[_LABEL_AT + 2 :] != _DEFAULTS[1:]:
            return False
    return True


def parse_json(text: str | bytes) -> Any:
    """Parse the output of `format_record`, or a list of it, with NaN and infinity as in the json module."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)


def _object_fields(item: AnnotatedObject) -> tuple[Any, ...]:
    known = item[: _LABEL_AT + 1]
    more = item[_LABEL_AT + 2 :]
    return known if more == _DEFAULTS[1:] else (*known, None, *more)


_OBJECTS_AT = AnnotatedImage._fields.index("objects")
_MORE_DEFAULTS = tuple(
    AnnotatedImage._field_defaults[name] for name in AnnotatedImage._fields[_OBJECTS_AT + 1 :]
)
_LABEL_AT = AnnotatedObject._fields.index("label")
_DEFAULTS = (None,) * (len(AnnotatedObject._fields) - _LABEL_AT - 1)


def _object(name: str, box: list[float], *rest: Any) -> AnnotatedObject:
    item = AnnotatedObject._make((name, tuple(box), *rest, *(_DEFAULTS if len(rest) < _LABEL_AT else ())))
    if item.keypoints is None:
        return item
    return item._replace(keypoints=[(x, y, seen) for x, y, seen in item.keypoints])


_NO_MASK = "null"


def _mask_text(mask: Mask | None) -> str:
    if mask is None:
        return _NO_MASK
    if isinstance(mask, Polygons):
        # Numbers as text take a hundred times as long to write and read, and masks consist of them. Base64
        # has no character that JSON must escape, so skip the search for one.
        rings = (binascii.b2a_base64(_doubles(ring), newline=False).decode() for ring in mask.rings)
        quoted = ", ".join(f'"{ring}"' for ring in rings)
        return f'{{"rings": [{quoted}]}}'
    if isinstance(mask, RunLengths):
        counts = mask.counts if isinstance(mask.counts, str) else list(mask.counts)
        return _encode({"size": [mask.height, mask.width], "counts": counts})
    return _encode({"path": mask.path})


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
