"""Label Studio's results as objects: places in percent of the image, turned about the first corner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detection_core.bounded.limits import MAX_KEYPOINTS
from detection_core.datasets.annotated_images import (
    AnnotatedObject,
    Keypoint,
    Rejected,
    check_count,
    checked_text,
)
from detection_core.datasets.formats.json_files import list_of, mapping_of, number_of, point_of, size_of
from detection_core.datasets.run_lengths import add_mask, brush_mask, place_mask
from detection_core.datasets.shapes import Point, ellipse, make_object, polygon_object, rectangle, turn

Result = Mapping[str, Any]

_POINT = "keypointlabels"
_IMAGE_WIDE = ("choices", "textarea", "rating", "taxonomy", "number", "pairwise", "datetime", "relation")
"""Kinds of results that say nothing about places."""


def read_objects(
    results: Sequence[Result], keypoint_names: dict[str, list[str]]
) -> tuple[list[AnnotatedObject], tuple[int, int]]:
    """Return the objects of an image, and its width and height in pixels; 0 where no result tells.

    A keypoint belongs to the region that its `parentID` names.

    Args:
        results: of one annotation.
        keypoint_names: class to the names of its keypoints in order; new ones are added.

    Raises:
        Rejected: for a result that cannot be used.
    """
    objects: dict[str, AnnotatedObject] = {}
    points: list[tuple[str, str, Point, str]] = []
    size, drawn = (0, 0), 0
    check_count(len(results))
    for number, result in enumerate(results, start=1):
        label, kind = f"result {number}", result.get("type")
        if kind in _IMAGE_WIDE:
            continue
        if not isinstance(kind, str) or kind not in {*_REGIONS, _POINT}:
            raise Rejected(
                "malformed_annotation",
                f"{label}: expected one of {', '.join([*_REGIONS, _POINT])}, found {kind!r:.40}",
            )
        value = mapping_of(result.get("value"), f"{label}: value")
        size = size_of(result.get("original_width"), result.get("original_height"))
        if 0 in size or result.get("image_rotation"):
            raise Rejected(
                "malformed_annotation",
                f"{label}: expected original_width and original_height of an image not turned in the tool",
            )
        name = _name(value, kind, label)
        if kind == _POINT:
            points.append((str(result.get("parentID")), name, _place(value, "x", "y", size, label), label))
        else:
            item = _REGIONS[kind](value, name, size, label)
            drawn = add_mask(drawn, item, size[0] * size[1])
            objects[str(result.get("id") or number)] = item
    return _with_points(objects, points, keypoint_names), size


def _name(value: Result, kind: str, label: str) -> str:
    names = list_of(value.get(kind, value.get("labels")), f"{label}: {kind}")
    if len(names) != 1:
        raise Rejected("malformed_annotation", f"{label}: expected one class, found {names!r:.80}")
    return checked_text(names[0], f"{label}: a class").strip()


def _with_points(
    objects: Mapping[str, AnnotatedObject],
    points: Sequence[tuple[str, str, Point, str]],
    keypoint_names: dict[str, list[str]],
) -> list[AnnotatedObject]:
    named: dict[str, dict[str, Keypoint]] = {}
    for parent, name, (x, y), label in points:
        if parent not in objects or name in named.get(parent, {}):
            raise Rejected(
                "malformed_annotation",
                f"{label}: expected the keypoint {name!r:.40} once inside a region (parentID), found "
                f"{parent!r:.40}; drop it onto its box in the outline",
            )
        named.setdefault(parent, {})[name] = (x, y, 2)
        order = keypoint_names.setdefault(objects[parent].name, [])
        if name not in order:
            check_count(len(order) + 1, "keypoints of a class", MAX_KEYPOINTS)
            order.append(name)
    found = []
    for key, item in objects.items():
        own = named.get(key)
        order = keypoint_names.get(item.name, [])
        found.append(item._replace(keypoints=[own.get(n, (0.0, 0.0, 0)) for n in order]) if own else item)
    return found


def _place(value: Result, x: str, y: str, size: tuple[int, int], label: str) -> Point:
    return (
        number_of(value.get(x), f"{label}: {x}") * size[0] / 100,
        number_of(value.get(y), f"{label}: {y}") * size[1] / 100,
    )


def _rectangle(value: Result, name: str, size: tuple[int, int], label: str) -> AnnotatedObject:
    (x, y), (width, height) = (
        _place(value, *keys, size, label) for keys in (("x", "y"), ("width", "height"))
    )
    degrees = number_of(value.get("rotation") or 0, f"{label}: rotation")
    if not degrees:
        return make_object(name, (x, y, x + width, y + height), label)
    return polygon_object(name, [turn(rectangle(x, y, width, height), (x, y), degrees)], label)


def _polygon(value: Result, name: str, size: tuple[int, int], label: str) -> AnnotatedObject:
    points = [
        point_of(point, f"{label}: a point") for point in list_of(value.get("points"), f"{label}: points")
    ]
    return polygon_object(name, [[(x * size[0] / 100, y * size[1] / 100) for x, y in points]], label)


def _ellipse(value: Result, name: str, size: tuple[int, int], label: str) -> AnnotatedObject:
    center, radii = (_place(value, *keys, size, label) for keys in (("x", "y"), ("radiusX", "radiusY")))
    degrees = number_of(value.get("rotation") or 0, f"{label}: rotation")
    return polygon_object(name, [ellipse(center, radii, degrees)], label)


def _brush(value: Result, name: str, size: tuple[int, int], label: str) -> AnnotatedObject:
    """Return what was painted; the box is that around its pixels."""
    runs = list_of(value.get("rle"), f"{label}: rle")
    mask = brush_mask(runs, *size)
    rows, columns = (mask.any(axis=axis).nonzero()[0] for axis in (1, 0))
    if not rows.size:
        raise Rejected("malformed_annotation", f"{label}: expected painted pixels, found none")
    left, top, right, bottom = int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
    placed = place_mask(mask[top:bottom, left:right], left, top, *size)
    return make_object(name, (float(left), float(top), float(right), float(bottom)), label, placed)


_REGIONS: dict[str, Callable[[Result, str, tuple[int, int], str], AnnotatedObject]] = {
    "rectanglelabels": _rectangle,
    "polygonlabels": _polygon,
    "ellipselabels": _ellipse,
    "brushlabels": _brush,
}
