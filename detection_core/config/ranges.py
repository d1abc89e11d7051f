"""Ranges of numbers, and pairs of lower and upper bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from detection_core.allowed_values import FACTOR, FRACTION, POSITIVE, POSITIVE_FRACTION, Range, up_to
from detection_core.config.messages.table import rules_of
from detection_core.config.problems import child_path, walk_messages
from detection_core.data.label_map import MAX_CLASS_ID
from detection_core.errors import Problem

BY_FIELD_NAME: Mapping[str, Range] = {
    "probability": FRACTION,
    "random_coef": FRACTION,
    "min_object_covered": FRACTION,
    "overlap_thresh": FRACTION,
    "max_area": FRACTION,
    "momentum_optimizer_value": FRACTION,
    "min_aspect_ratio": POSITIVE,
    "max_aspect_ratio": POSITIVE,
    "iou_threshold": FRACTION,
    "dropout_keep_probability": POSITIVE_FRACTION,
    "depth_multiplier": FACTOR,
    "pad_to_multiple": up_to(1_024),
    "num_classes": Range(-math.inf, MAX_CLASS_ID, f"a number up to {MAX_CLASS_ID:,}"),
    "logit_scale": POSITIVE,
    "y_scale": POSITIVE,
    "x_scale": POSITIVE,
    "height_scale": POSITIVE,
    "width_scale": POSITIVE,
    "length_scale": POSITIVE,
}
"""Ranges of fields that have the same meaning in every message."""

# Upper bounds for which 0 means no limit.
_ZERO_IS_OFF = {"max_depth", "max_image_height", "max_image_width"}
# Name parts of lower bounds and of their upper bounds.
_PAIRS = (("min_", "max_"), ("minval", "maxval"), ("_min", "_max"), ("lower_bound", "upper_bound"))
_ORDERED = {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_FLOAT}


def range_problems(message: Message, path: str) -> Iterator[Problem]:
    """Find numbers out of range or not finite, and swapped bounds, also in submessages."""
    for location, part in walk_messages(message, path):
        yield from _not_finite(location, part)
        yield from _out_of_range(location, part)
        yield from _bounds(location, part)


def _not_finite(path: str, message: Message) -> Iterator[Problem]:
    for field, value in message.ListFields():
        if field.cpp_type != FieldDescriptor.CPPTYPE_FLOAT:
            continue
        for index, element in _elements(field, value):
            if not math.isfinite(element):
                text = f"expected a finite number of 32 bits, found {element}"
                yield Problem(path=child_path(path, field, index), message=text)


def _out_of_range(path: str, message: Message) -> Iterator[Problem]:
    own = rules_of(message.DESCRIPTOR).ranges
    for field in cast(Descriptor, message.DESCRIPTOR).fields:
        if field.name in own:
            allowed = own[field.name]
        elif field.name in BY_FIELD_NAME and message.HasField(field.name):
            allowed = BY_FIELD_NAME[field.name]
        else:
            continue
        elements = _elements(field, getattr(message, field.name))
        wrong = next(
            (pair for pair in elements if math.isfinite(pair[1]) and not allowed.holds(pair[1])), None
        )
        if wrong is not None:
            text = f"expected {allowed.text}, found {_shown(wrong[1])}"
            yield Problem(path=child_path(path, field, wrong[0]), message=text)


def _elements(field: FieldDescriptor, value: Any) -> Iterator[tuple[int | None, float]]:
    """Yield the numbers of a field, with their index in a list."""
    if field.is_repeated:
        yield from enumerate(value)
    else:
        yield None, value


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _bounds(path: str, message: Message) -> Iterator[Problem]:
    """Compare bounds if at least one is set; the other may be the schema's default."""
    fields = cast(Descriptor, message.DESCRIPTOR).fields_by_name
    for low in fields.values():
        high = next((fields.get(low.name.replace(a, b, 1)) for a, b in _PAIRS if a in low.name), None)
        if high is None or high is low or low.is_repeated or low.cpp_type not in _ORDERED:
            continue
        low_value, high_value = getattr(message, low.name), getattr(message, high.name)
        given = message.HasField(low.name) or message.HasField(high.name)
        off = high.name in _ZERO_IS_OFF and high_value == 0
        if given and not off and low_value > high_value:
            text = f"expected at most {high.name}, which is {high_value:g}, found {low_value:g}"
            yield Problem(path=child_path(path, low), message=text)
