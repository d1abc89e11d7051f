"""JSON files of annotations, and values in them of a type that is checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from detection_core.bounded.limits import MAX_IMAGE_FILE_BYTES
from detection_core.bounded.plain_json import parse_json_text
from detection_core.datasets.annotated_images import Rejected, read_annotation


def parse_json(path: str) -> Any:
    """Return what is in a JSON file.

    Raises:
        Rejected: when there is no such file, or it cannot be parsed.
    """
    data = read_annotation(path, MAX_IMAGE_FILE_BYTES)
    try:
        return parse_json_text(data.decode("utf-8-sig"))
    except ValueError as e:
        raise Rejected("unreadable_annotation", f"the JSON cannot be parsed: {e}") from e


def number_of(value: object, what: str) -> float:
    """Return a value, checked to be a finite number.

    Raises:
        Rejected: as a malformed annotation.
    """
    if not isinstance(value, bool) and isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise Rejected("malformed_annotation", f"expected {what} as a finite number, found {value!r:.80}")


def point_of(value: object, what: str) -> tuple[float, float]:
    """Return a value, checked to be a list of two finite numbers.

    Raises:
        Rejected: as a malformed annotation.
    """
    if not isinstance(value, list) or len(value) != 2:
        raise Rejected("malformed_annotation", f"expected {what} as x and y, found {value!r:.80}")
    return number_of(value[0], what), number_of(value[1], what)


def mapping_of(value: object, what: str) -> Mapping[str, Any]:
    """Return a value, checked to be a JSON object.

    Raises:
        Rejected: as a malformed record.
    """
    if not isinstance(value, Mapping):
        raise Rejected("malformed_record", f"expected {what} as a JSON object, found {value!r:.80}")
    return value


def list_of(value: object, what: str) -> list[Any]:
    """Return a value, checked to be a list.

    Raises:
        Rejected: as a malformed record.
    """
    if not isinstance(value, list):
        raise Rejected("malformed_record", f"expected {what} as a list, found {value!r:.80}")
    return value


def size_of(width: object, height: object) -> tuple[int, int]:
    """Return an image's size in pixels; 0 for a side that is not told.

    Raises:
        Rejected: as a malformed record.
    """
    sides = [0.0 if side is None else number_of(side, "the image's size") for side in (width, height)]
    if any(side < 0 or not side.is_integer() for side in sides):
        raise Rejected("malformed_record", f"expected the image's size in pixels, found {sides!r:.80}")
    return int(sides[0]), int(sides[1])
