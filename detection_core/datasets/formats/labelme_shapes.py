"""LabelMe's shapes as objects."""

from __future__ import annotations

import base64
import collections
import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detection_core.datasets.annotated_images import (
    AnnotatedObject,
    Rejected,
    check_count,
    checked_text,
)
from detection_core.datasets.formats.json_files import list_of, point_of
from detection_core.datasets.run_lengths import add_mask, place_mask
from detection_core.datasets.shapes import (
    Point,
    box_around,
    ellipse,
    join_objects,
    make_object,
    polygon_object,
)

_NO_CLASSES = ("__ignore__", "_background_")
"""Labels by which LabelMe's own converters leave out what is drawn."""

Shape = Mapping[str, Any]


def read_objects(
    shapes: Sequence[Shape], width: int, height: int
) -> list[tuple[AnnotatedObject, dict[str, Point]]]:
    """Return the objects of an image, and the named points that belong to each.

    Shapes with labels of LabelMe's own, which are no classes, are left out. Outlines of one label and
    `group_id` are one object. A point belongs to the object of its `group_id`.

    Args:
        shapes: as the file lists them.
        width: of the image in pixels.
        height: likewise.

    Raises:
        Rejected: for a shape that is none, or that has no area.
    """
    objects: dict[object, AnnotatedObject] = {}
    points: list[tuple[object, str, Point, str]] = []
    drawn = 0
    check_count(len(shapes))
    for number, shape in enumerate(shapes, start=1):
        label = f"shape {number}"
        name = checked_text(shape.get("label"), f"{label}: label").strip()
        if name in _NO_CLASSES:
            continue
        group, kind = shape.get("group_id"), shape.get("shape_type") or "polygon"
        corners = [
            point_of(point, f"{label}: a point") for point in list_of(shape.get("points"), f"{label}: points")
        ]
        if kind == "point" and corners and isinstance(group, int | str):
            points.append((group, name, corners[0], label))
            continue
        if not isinstance(kind, str) or kind not in _SHAPES:
            raise Rejected(
                "malformed_annotation",
                f"{label}: expected one of {', '.join(_SHAPES)}, or a point with the group_id of one, "
                f"found {kind!r:.40}",
            )
        item = _SHAPES[kind](shape, name, corners, label, (width, height))
        drawn = add_mask(drawn, item)
        key = (name, group) if isinstance(group, int | str) else number
        objects[key] = join_objects(objects[key], item) if key in objects else item
    return _with_points(objects, points)


def _with_points(
    objects: Mapping[object, AnnotatedObject], points: Sequence[tuple[object, str, Point, str]]
) -> list[tuple[AnnotatedObject, dict[str, Point]]]:
    named: dict[object, dict[str, Point]] = {key: {} for key in objects}
    of_group: dict[object, list[object]] = collections.defaultdict(list)
    for key in objects:
        if isinstance(key, tuple):
            of_group[key[1]].append(key)
    for group, name, point, label in points:
        owners = of_group.get(group, [])
        if len(owners) != 1 or name in named[owners[0]]:
            raise Rejected(
                "malformed_annotation",
                f"{label}: expected one object with the point's group_id {group!r:.40}, and one point of its "
                f"name, found {len(owners)} objects",
            )
        named[owners[0]][name] = point
    return [(item, named[key]) for key, item in objects.items()]


Draw = Callable[[Shape, str, list[Point], str, tuple[int, int]], AnnotatedObject]


def _polygon(
    shape: Shape, name: str, points: list[Point], label: str, size: tuple[int, int]
) -> AnnotatedObject:
    return polygon_object(name, [points], label)


def _rectangle(
    shape: Shape, name: str, points: list[Point], label: str, size: tuple[int, int]
) -> AnnotatedObject:
    if len(points) != 2:
        return polygon_object(name, [points], label)
    return make_object(name, box_around(points), label)


def _circle(
    shape: Shape, name: str, points: list[Point], label: str, size: tuple[int, int]
) -> AnnotatedObject:
    if len(points) != 2:
        raise Rejected(
            "malformed_annotation", f"{label}: expected center and edge of a circle, found {points!r:.80}"
        )
    radius = math.dist(*points)
    return polygon_object(name, [ellipse(points[0], (radius, radius))], label)


def _mask(shape: Shape, name: str, points: list[Point], label: str, size: tuple[int, int]) -> AnnotatedObject:
    """Return an object from a picture of its mask that lies between two points."""
    import numpy as np

    from detection_core.data.image_header import ImageFault
    from detection_core.data.pixels import open_picture

    if len(points) != 2:
        raise Rejected(
            "malformed_annotation", f"{label}: expected two corners of a mask, found {points!r:.80}"
        )
    try:
        data = base64.b64decode(shape["mask"], validate=True)
        with open_picture(io.BytesIO(data)) as picture:
            patch = np.asarray(picture.convert("L")) > 0
    except (KeyError, TypeError, ValueError, ImageFault) as e:
        raise Rejected("malformed_annotation", f"{label}: expected a PNG file as base64 text: {e}") from e
    xmin, ymin, _, _ = box_around(points)
    left, top = round(xmin), round(ymin)
    # Both corners are pixels of the mask.
    box = (float(left), float(top), float(left + patch.shape[1]), float(top + patch.shape[0]))
    return make_object(name, box, label, place_mask(patch, left, top, *size))


_SHAPES: dict[str, Draw] = {
    "polygon": _polygon,
    "rectangle": _rectangle,
    "rotation": _polygon,
    "oriented_rectangle": _polygon,
    "circle": _circle,
    "mask": _mask,
}
