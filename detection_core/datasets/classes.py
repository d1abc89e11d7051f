"""Merges the classes and keypoints of all splits of a data set."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from detection_core.bounded.limits import MAX_KEYPOINTS, MAX_VALUES
from detection_core.data.label_map import FREQUENCIES, Keypoint, LabelMap, LabelMapItem, label_map_from_names
from detection_core.datasets.annotated_images import AnnotatedObject, Rejected
from detection_core.errors import DataError, shorten


def make_label_map(categories: Iterable[Mapping[str, int]], refused: str = "") -> LabelMap:
    """Make one label map from the categories of the splits.

    Ids of the source are kept, as in the Object Detection API. Classes without ids are numbered from 1 in
    alphabetical order, so that the order of files does not matter.

    Args:
        categories: of each split, class name to id, or to 0 if the source has no ids.
        refused: the fault of the first rejected annotation; "" if there is none.

    Raises:
        DataError: if the splits disagree about an id, or there is no class.
    """
    merged: dict[str, int] = {}
    for split in categories:
        for name, number in split.items():
            if merged.setdefault(name, number) != number:
                raise DataError(
                    f"expected one id for the category {name!r}, found {merged[name]} and {number} "
                    "in two splits or spans; make the category lists of the annotation files equal"
                )
    if not merged:
        cause = f", and one that cannot be used: {refused}" if refused else ""
        raise DataError(
            f"expected annotated objects or a list of categories, found none{cause}; check data.path"
        )
    if 0 in merged.values():
        return label_map_from_names(sorted(merged))
    names = {number: name for name, number in merged.items()}
    if len(names) < len(merged):
        shared = sorted(name for name, number in merged.items() if names[number] != name)
        raise DataError(
            f"expected one category for each id, found ids used twice, such as that of {shared[0]!r}; "
            "make the category lists of the annotation files equal"
        )
    return LabelMap(items=tuple(LabelMapItem(id=number, name=names[number]) for number in sorted(names)))


def similar_names(names: Iterable[str]) -> list[list[str]]:
    """Return groups of names that differ only in case or whitespace."""
    alike: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        alike.setdefault("".join(name.split()).casefold(), []).append(name)
    return [group for group in alike.values() if len(group) > 1]


_LARGEST = 1e6
"""Largest absolute value of a valid coordinate, in pixels."""


@dataclasses.dataclass(frozen=True)
class KeypointLayout:
    """The order of keypoints that all records of a data set share, as a detector's heads require.

    Attributes:
        names: of all keypoints; a name that several classes use is one keypoint.
        places: class name to the indices of its keypoints in `names`.
    """

    names: tuple[str, ...] = ()
    places: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)


def check_keypoint_names(keypoint_names: Mapping[str, Sequence[str]], where: str) -> None:
    """Check that a detector can have an output for every keypoint; DataError if there are too many."""
    for label, names in keypoint_names.items():
        if len(names) > MAX_KEYPOINTS:
            found = f"found {len(names):,} of {shorten(label)}"
            raise DataError(f"expected at most {MAX_KEYPOINTS} keypoints of a class, {found}", where=where)
    total = sum(map(len, keypoint_names.values()))
    if total > MAX_VALUES:
        detail = f"expected at most {MAX_VALUES:,} keypoints of all classes, found {total:,}"
        raise DataError(detail, where=where)


def make_layout(keypoint_names: Mapping[str, Sequence[str]]) -> KeypointLayout:
    """Lay out the keypoints of all classes in the given order."""
    order: dict[str, int] = {}
    for names in keypoint_names.values():
        for name in names:
            order.setdefault(name, len(order))
    places = {label: [order[name] for name in names] for label, names in keypoint_names.items()}
    return KeypointLayout(tuple(order), places)


def merge_keypoint_names(
    given: Iterable[Mapping[str, Sequence[str]]], label_ids: Mapping[str, int]
) -> dict[str, list[str]]:
    """Return each class's keypoint names in all sources, by label map; DataError if these disagree."""
    merged: dict[str, list[str]] = {}
    for source in given:
        for label, names in source.items():
            if merged.setdefault(label, list(names)) != list(names):
                raise DataError(
                    f"expected one list of keypoints for the class {label!r}, found {merged[label]} and "
                    f"{list(names)} in two splits or spans; make the annotation files equal"
                )
    return {
        label: merged[label] for label in sorted(merged.keys() & label_ids.keys(), key=label_ids.__getitem__)
    }


def fill_label_map(
    label_map: LabelMap, keypoint_names: Mapping[str, Sequence[str]], frequencies: Mapping[str, str]
) -> LabelMap:
    """Return the label map with keypoints and frequencies of the data; classes with their own keep these."""
    layout = make_layout(keypoint_names)

    def filled(item: LabelMapItem) -> LabelMapItem:
        places = layout.places.get(item.name) or layout.places.get(item.display_name, ())
        found = tuple(Keypoint(id=place, label=layout.names[place]) for place in places)
        frequency = frequencies.get(item.name) or frequencies.get(item.display_name, FREQUENCIES[0])
        known = item.frequency != FREQUENCIES[0]
        return dataclasses.replace(
            item, keypoints=item.keypoints or found, frequency=item.frequency if known else frequency
        )

    return LabelMap(items=tuple(map(filled, label_map.items)))


def keypoint_columns(
    objects: Sequence[AnnotatedObject], layout: KeypointLayout, height: int, width: int
) -> dict[str, Sequence[Any]]:
    """Return the features of the keypoints of an image's objects by key, none if no object has any.

    As in the Object Detection API's records, a missing keypoint is at 0, 0 with visibility 0.

    Raises:
        Rejected: if a keypoint is not one of the object's class, or its coordinates are invalid.
    """
    if all(item.keypoints is None for item in objects):
        return {}
    count = len(layout.names)
    if count * len(objects) > MAX_VALUES:
        detail = f"expected at most {MAX_VALUES:,} keypoints of an image, found {count * len(objects):,}"
        raise Rejected("malformed_keypoints", detail)
    x, y = [0.0] * (count * len(objects)), [0.0] * (count * len(objects))
    visibility, numbers = [0] * len(x), []
    for number, item in enumerate(objects):
        _check_keypoints(item, layout)
        numbers.append(sum(1 for _, _, seen in item.keypoints or () if seen))
        places = layout.places.get(item.name, ())
        for place, (at_x, at_y, seen) in zip(places, item.keypoints or (), strict=False):
            index = number * count + place
            x[index], y[index], visibility[index] = at_x / width, at_y / height, seen
    columns: dict[str, Sequence[Any]] = {"x": x, "y": y, "visibility": visibility, "num": numbers}
    columns["text"] = layout.names * len(objects)
    return {f"image/object/keypoint/{name}": values for name, values in columns.items()}


def _check_keypoints(item: AnnotatedObject, layout: KeypointLayout) -> None:
    if item.keypoints is None:
        return
    expected = len(layout.places.get(item.name, ()))
    if len(item.keypoints) != expected:
        detail = f"expected the {expected} keypoints of {item.name!r}, found {len(item.keypoints)}"
        raise Rejected("malformed_keypoints", f"{item.label}: {detail}")
    for x, y, seen in item.keypoints:
        if seen not in (0, 1, 2) or not math.isfinite(x + y) or max(abs(x), abs(y)) > _LARGEST:
            detail = f"expected x and y in pixels and a visibility of 0, 1 or 2, found {(x, y, seen)!r:.80}"
            raise Rejected("malformed_keypoints", f"{item.label}: {detail}")
