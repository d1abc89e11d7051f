"""CVAT's shapes as objects."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from xml.etree import ElementTree

from detection_core.bounded.limits import MAX_KEYPOINTS, MAX_VALUES
from detection_core.datasets.annotated_images import (
    AnnotatedObject,
    Keypoint,
    Polygons,
    Rejected,
    check_count,
    checked_text,
)
from detection_core.datasets.run_lengths import add_mask, place_mask, row_mask
from detection_core.datasets.shapes import (
    Point,
    box_around,
    ellipse,
    join_objects,
    make_object,
    polygon_object,
    rectangle,
    turn,
)

_YES = ("1", "true", "yes")
_NOT_SHAPES = ("tag",)

Names = dict[str, list[str]]


def read_objects(
    image: ElementTree.Element, width: int, height: int, keypoint_names: Names
) -> list[AnnotatedObject]:
    """Return the objects of an image. Polygons of one label and group are one object.

    Args:
        image: its element.
        width: of the image in pixels.
        height: likewise.
        keypoint_names: class to the names of its keypoints; those of a class that has none yet are added.

    Raises:
        Rejected: for a shape that cannot be used, or that has no area.
    """
    objects: dict[object, AnnotatedObject] = {}
    drawn = keypoints = 0
    check_count(len(image))
    shapes = (element for element in image if element.tag not in _NOT_SHAPES)
    for number, element in enumerate(shapes, start=1):
        label = f"{element.tag:.20} {number}"
        if element.tag not in _SHAPES:
            raise Rejected(
                "malformed_annotation",
                f"{label}: expected one of {', '.join(_SHAPES)}, found a shape without area; leave it out",
            )
        name = checked_text(element.get("label"), f"{label}: label").strip()
        item = _SHAPES[element.tag](element, name, label, (width, height), keypoint_names)
        drawn = add_mask(drawn, item)
        keypoints += len(item.keypoints or ())
        check_count(keypoints, "keypoints of an image", MAX_VALUES)
        item = _with_flags(item, element)
        group = element.get("group_id") or "0"
        key = (name, group) if group != "0" and isinstance(item.mask, Polygons) else number
        objects[key] = join_objects(objects[key], item) if key in objects else item
    return list(objects.values())


def _with_flags(item: AnnotatedObject, element: ElementTree.Element) -> AnnotatedObject:
    said = {
        (attribute.get("name") or "").lower(): int((attribute.text or "").strip().lower() in _YES)
        for attribute in element.iterfind("attribute")
    }
    occluded = element.get("occluded")
    return item._replace(
        occluded=None if occluded is None else int(occluded in _YES),
        difficult=said.get("difficult"),
        truncated=said.get("truncated"),
        crowd=said.get("is_crowd", said.get("iscrowd", 0)),
    )


def _numbers(element: ElementTree.Element, label: str, *keys: str) -> list[float]:
    try:
        values = [float(element.get(key) or "nothing") for key in keys]
    except ValueError:
        values = [math.nan]
    if not all(map(math.isfinite, values)):
        found = {key: element.get(key) for key in keys}
        raise Rejected("malformed_annotation", f"{label}: expected numbers, found {found!r:.120}")
    return values


def _points(element: ElementTree.Element, label: str) -> list[Point]:
    text = element.get("points") or ""
    check_count(text.count(";"), "points of an outline")
    try:
        points = [tuple(map(float, pair.split(","))) for pair in text.split(";") if pair.strip()]
        if points and all(len(point) == 2 and all(map(math.isfinite, point)) for point in points):
            return [(point[0], point[1]) for point in points]
    except ValueError:
        pass
    raise Rejected("malformed_annotation", f"{label}: expected points as x,y;x,y, found {text!r:.80}")


Draw = Callable[[ElementTree.Element, str, str, tuple[int, int], Names], AnnotatedObject]


def _box(
    element: ElementTree.Element, name: str, label: str, size: tuple[int, int], _: Names
) -> AnnotatedObject:
    xtl, ytl, xbr, ybr = _numbers(element, label, "xtl", "ytl", "xbr", "ybr")
    (degrees,) = _numbers(element, label, "rotation") if element.get("rotation") else (0.0,)
    if not degrees:
        return make_object(name, (xtl, ytl, xbr, ybr), label)
    corners = rectangle(xtl, ytl, xbr - xtl, ybr - ytl)
    return polygon_object(name, [turn(corners, ((xtl + xbr) / 2, (ytl + ybr) / 2), degrees)], label)


def _polygon(
    element: ElementTree.Element, name: str, label: str, size: tuple[int, int], _: Names
) -> AnnotatedObject:
    return polygon_object(name, [_points(element, label)], label)


def _ellipse(
    element: ElementTree.Element, name: str, label: str, size: tuple[int, int], _: Names
) -> AnnotatedObject:
    x, y, rx, ry = _numbers(element, label, "cx", "cy", "rx", "ry")
    (degrees,) = _numbers(element, label, "rotation") if element.get("rotation") else (0.0,)
    return polygon_object(name, [ellipse((x, y), (rx, ry), degrees)], label)


def _mask(
    element: ElementTree.Element, name: str, label: str, size: tuple[int, int], _: Names
) -> AnnotatedObject:
    left, top, width, height = map(int, _numbers(element, label, "left", "top", "width", "height"))
    try:
        counts = [int(count) for count in (element.get("rle") or "").split(",")]
    except ValueError as e:
        raise Rejected("malformed_annotation", f"{label}: expected run lengths in rle: {e}") from e
    try:
        patch = row_mask(counts, width, height)
    except Rejected as e:
        raise Rejected(e.reason, f"{label}: {e.detail}") from e
    box = (float(left), float(top), float(left + width), float(top + height))
    return make_object(name, box, label, place_mask(patch, left, top, *size))


def _skeleton(
    element: ElementTree.Element, name: str, label: str, size: tuple[int, int], keypoint_names: Names
) -> AnnotatedObject:
    """Return an object whose box is that around the points which are in the image."""
    points: dict[str, Keypoint] = {}
    for point in element.iterfind("points"):
        ((x, y), *_) = _points(point, label)
        seen = 0 if point.get("outside") in _YES else 1 if point.get("occluded") in _YES else 2
        points[checked_text(point.get("label"), f"{label}: a point's label")] = (x, y, seen)
    check_count(len(points), "keypoints of an object", MAX_KEYPOINTS)
    names = keypoint_names.setdefault(name, sorted(points))
    placed = [(x, y) for x, y, seen in points.values() if seen]
    if not placed or not set(points) <= set(names):
        raise Rejected(
            "malformed_annotation", f"{label}: expected points of {names!r:.80}, found {sorted(points)!r:.80}"
        )
    keypoints = [points.get(point, (0.0, 0.0, 0)) for point in names]
    return make_object(name, box_around(placed), label, keypoints=keypoints)


_SHAPES: Mapping[str, Draw] = {
    "box": _box,
    "polygon": _polygon,
    "ellipse": _ellipse,
    "mask": _mask,
    "skeleton": _skeleton,
}
