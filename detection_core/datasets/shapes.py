"""What annotation tools draw, as boxes and masks in pixels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, cast

from detection_core.datasets.annotated_images import (
    AnnotatedObject,
    Keypoint,
    Mask,
    Polygons,
    Rejected,
    check_count,
)

Point = tuple[float, float]

_CORNERS_OF_ELLIPSE = 64


def make_object(
    name: str,
    box: tuple[float, float, float, float],
    label: str,
    mask: Mask | None = None,
    keypoints: Sequence[Keypoint] | None = None,
) -> AnnotatedObject:
    """Return an object of which no more is known than its class and its place.

    Args:
        name: of its class.
        box: (xmin, ymin, xmax, ymax) in pixels.
        label: how messages name it.
        mask: which pixels are the object's.
        keypoints: in the order of its class.
    """
    return AnnotatedObject(
        name=name,
        box=box,
        area=0.0,
        crowd=0,
        difficult=None,
        truncated=None,
        pose=None,
        label=label,
        mask=mask,
        keypoints=keypoints,
    )


def box_around(points: Iterable[Point]) -> tuple[float, float, float, float]:
    """Return (xmin, ymin, xmax, ymax) around points, of which there is at least one."""
    x, y = zip(*points, strict=True)
    return min(x), min(y), max(x), max(y)


def polygon_object(name: str, rings: Sequence[Sequence[Point]], label: str) -> AnnotatedObject:
    """Return an object from its outlines.

    Raises:
        Rejected: when an outline has fewer than three points or far too many, or a coordinate is not finite.
    """
    for ring in rings:
        check_count(len(ring), "points of an outline")
        if len(ring) < 3 or not all(map(math.isfinite, itertools.chain(*ring))):
            raise Rejected(
                "malformed_annotation",
                f"{label}: expected a polygon of 3 points or more, found {ring!r:.120}",
            )
    mask = Polygons([list(itertools.chain(*ring)) for ring in rings])
    return make_object(name, box_around(itertools.chain(*rings)), label, mask)


def join_objects(one: AnnotatedObject, other: AnnotatedObject) -> AnnotatedObject:
    """Return an object that is two parts of one, with the outlines of both.

    Args:
        one: its outlines are taken over, not copied, so that many parts can be joined.
        other: left as it is.
    """
    box = box_around([one.box[:2], one.box[2:], other.box[:2], other.box[2:]])
    if isinstance(one.mask, Polygons) and isinstance(other.mask, Polygons):
        cast(list[Any], one.mask.rings).extend(other.mask.rings)
    return one._replace(box=box, mask=one.mask or other.mask)


def ellipse(center: Point, radii: Point, degrees: float = 0.0) -> list[Point]:
    """Return the outline of an ellipse, turned clockwise about its center."""
    steps = (2 * math.pi * step / _CORNERS_OF_ELLIPSE for step in range(_CORNERS_OF_ELLIPSE))
    outline = [(center[0] + radii[0] * math.cos(a), center[1] + radii[1] * math.sin(a)) for a in steps]
    return turn(outline, center, degrees)


def rectangle(x: float, y: float, width: float, height: float) -> list[Point]:
    """Return the corners of a rectangle, clockwise from (x, y)."""
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def turn(points: Iterable[Point], center: Point, degrees: float) -> list[Point]:
    """Turn points clockwise, as the y axis points down."""
    if not degrees:
        return list(points)
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return [
        (
            center[0] + (x - center[0]) * cos - (y - center[1]) * sin,
            center[1] + (x - center[0]) * sin + (y - center[1]) * cos,
        )
        for x, y in points
    ]
