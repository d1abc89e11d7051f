"""VGG Image Annotator 1 and 2: a JSON file or project of images with regions, or a CSV file of regions.

https://www.robots.ox.ac.uk/~vgg/software/via/
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.datasets.annotated_images import (
    AnnotatedObject,
    Malformed,
    Rejected,
    check_count,
    checked_text,
)
from detection_core.datasets.formats.annotation_files import AnnotationFile, candidates
from detection_core.datasets.formats.csv_rows import open_csv, split_rows
from detection_core.datasets.formats.json_files import EntryFormat, list_of, mapping_of, number_of, parse_json
from detection_core.datasets.grouping import Grouping
from detection_core.datasets.layouts import spread
from detection_core.datasets.shapes import Point, ellipse, polygon_object
from detection_core.errors import DataError
from detection_core.storage.folder_listing import FolderListing

LOOKS_FOR = "VIA: a JSON or CSV file of regions with region_attributes, of VGG Image Annotator 1 or 2"

_WHAT = "a file of VGG Image Annotator"
_METADATA = "_via_img_metadata"
_COLUMNS = ("region_shape_attributes", "region_attributes")
_FILENAME = re.compile(rb'"filename"\s*:\s*"([^"\\]+)"')
_ROW_NAME = re.compile(rb"^\"?([^\",\r\n]+)\"?,", re.MULTILINE)
_SAMPLE = 100
_CLASS_NAMES = ("class", "label", "name", "type", "category", "object")
"""Attributes that hold the class, if a region has several."""


def find_files(listing: FolderListing) -> dict[str, AnnotationFile]:
    """Return the files of regions in a folder."""
    found = {}
    for path in candidates(listing, ".json", ".csv"):
        text = b"".join(listing.ends(path))
        is_csv = path.lower().endswith(".csv")
        if b"region_attributes" in text and (is_csv or b'"regions"' in text):
            some = (_ROW_NAME if is_csv else _FILENAME).findall(text)[is_csv:]
            some = [name.decode(errors="replace") for name in dict.fromkeys(some)]
            found[path] = AnnotationFile(names=spread(some, _SAMPLE))
    return found


def _entries(path: str) -> Iterator[Any]:
    if path.lower().endswith(".csv"):
        yield from _of_rows(path)
        return
    try:
        content = mapping_of(parse_json(path), "the file")
        yield from mapping_of(content.get(_METADATA, content), _METADATA).values()
    except Rejected as e:
        raise DataError(f"expected {_WHAT}: {e.detail}", where=path) from e


def _of_rows(path: str) -> Iterator[Any]:
    """Yield the images of a CSV file, as in the JSON file; a cell that is no JSON as text."""
    images = Grouping()
    with open_csv(path) as text:
        rows = (row for _, row in split_rows(text, path) if row)
        header = next(rows, [])
        for cells in rows:
            row = dict(zip(header, cells, strict=False))
            name = row.get("filename") or row.get("#filename") or ""
            if name not in images:
                images.add_image(name, name)
            images.add_part(name, [row.get(column) for column in _COLUMNS])
    for name, parts in images:
        regions = ((_parsed(place), _parsed(said)) for place, said in parts)
        drawn = [{"shape_attributes": place, "region_attributes": said} for place, said in regions if place]
        yield {"filename": name, "regions": drawn}


def _parsed(cell: object) -> Any:
    try:
        return json.loads(str(cell or "{}"))
    except (ValueError, RecursionError):
        return cell


def _objects(entry: Mapping[str, Any]) -> list[AnnotatedObject]:
    regions = entry.get("regions") or []
    # Version 1 numbers the regions.
    drawn = list(regions.values()) if isinstance(regions, Mapping) else list_of(regions, "regions")
    check_count(len(drawn))
    return [_object(mapping_of(region, "a region"), number) for number, region in enumerate(drawn, start=1)]


def _object(region: Mapping[str, Any], number: int) -> AnnotatedObject:
    label = f"region {number}"
    name = _class_of(region.get("region_attributes"), label)
    place = region.get("shape_attributes")
    kind = place.get("name") if isinstance(place, Mapping) else None
    if not isinstance(place, Mapping) or not isinstance(kind, str) or kind not in _SHAPES:
        raise Malformed(f"{label}: expected one of {', '.join(_SHAPES)}, found {kind!r:.40}")
    if kind == "polygon":
        return polygon_object(name, _polygon(place, label), label)
    numbers = [number_of(place.get(key), f"{label}: {key}") for key in _SHAPES[kind]]
    if kind == "rect":
        x, y, width, height = numbers
        return AnnotatedObject(name, (x, y, x + width, y + height), label=label)
    x, y, *radii = numbers
    theta = number_of(place.get("theta") or 0, f"{label}: theta") if kind == "ellipse" else 0.0
    degrees = math.degrees(math.remainder(theta, math.tau))
    return polygon_object(name, ellipse((x, y), (radii[0], radii[-1]), degrees), label)


_SHAPES = {
    "rect": ("x", "y", "width", "height"),
    "circle": ("cx", "cy", "r"),
    "ellipse": ("cx", "cy", "rx", "ry"),
    "polygon": ("all_points_x", "all_points_y"),
}
"""Name of a shape to the keys of its numbers."""


def _class_of(said: object, label: str) -> str:
    """Return the class in a region's attributes; a checkbox's value is the checked option."""
    attributes = {key: value for key, value in said.items() if value} if isinstance(said, Mapping) else {}
    key = next((key for key in attributes if key.lower() in _CLASS_NAMES), next(iter(attributes), ""))
    value = attributes.get(key)
    if isinstance(value, Mapping):
        checked = [name for name, is_set in value.items() if is_set]
        value = checked[0] if len(checked) == 1 else None
    if not value:
        raise Malformed(f"{label}: expected a class in region_attributes, found {said!r:.80}")
    return checked_text(value, f"{label}: its class").strip()


def _polygon(place: Mapping[str, Any], label: str) -> list[Point]:
    xs, ys = (list_of(place.get(key), f"{label}: {key}") for key in _SHAPES["polygon"])
    if len(xs) != len(ys):
        raise Malformed(f"{label}: expected as many x as y, found {len(xs)}, {len(ys)}")
    return [(number_of(x, f"{label}: x"), number_of(y, f"{label}: y")) for x, y in zip(xs, ys, strict=True)]


_FORMAT = EntryFormat(
    name="via",
    title="VIA",
    what=_WHAT,
    find_files=find_files,
    entries=_entries,
    image_name=lambda entry: entry.get("filename"),
    objects=_objects,
)
find, locate, read = _FORMAT.find, _FORMAT.locate, _FORMAT.read
