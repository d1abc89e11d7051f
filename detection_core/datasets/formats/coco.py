"""COCO JSON: one file per split, with the lists `images`, `annotations` and `categories`."""

import array
import contextlib
import json
import os
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from detection_core.data.label_map import LVIS_FREQUENCIES
from detection_core.datasets.annotated_images import (
    LVIS_FIELDS,
    AnnotatedImage,
    AnnotatedObject,
    Annotations,
    ImageLabel,
    Keypoint,
    Malformed,
    Polygons,
    Rejected,
    Rejection,
    Rejections,
    RunLengths,
    check_count,
    checked_id,
    checked_text,
)
from detection_core.datasets.formats.annotation_files import AnnotationFile, FileFormat, locate_images
from detection_core.datasets.grouping import Grouping
from detection_core.datasets.image_files import ImageFiles
from detection_core.datasets.json_lists import JsonLists
from detection_core.datasets.layouts import list_data_set, name_here, spread
from detection_core.errors import DataError
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing

LOOKS_FOR = "COCO JSON: a .json file with the lists images, annotations and categories"

_MOST_FILES = 50
"""If a folder has more JSON files, only some are opened: it probably has one file per image."""

_SAMPLE = 100
_TEXT = rb'"%s"\s*:\s*("(?:[^"\\]++|\\.)*+")'


def find_files(listing: FolderListing) -> dict[str, AnnotationFile]:
    """Return the COCO JSON files in a folder, each with the names of some images."""
    found = {}
    for folder, names in listing.folders.items():
        candidates = [posixpath.join(folder, name) for name in names if name.lower().endswith(".json")]
        if len(candidates) > _MOST_FILES:
            candidates = candidates[:: len(candidates) // 3][:3]
        for path in candidates:
            head, tail = listing.ends(path)
            if is_coco(head, tail):
                found[path] = AnnotationFile(names=_some_names(head + tail))
    return found


def is_coco(head: bytes, tail: bytes) -> bool:
    """Return whether a file's beginning and end are those of COCO JSON with objects."""
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    text = head + tail
    # Caption files have no categories, panoptic segmentation files no objects.
    categories = b'"category_id"' in text or b'"categories"' in text
    return b'"images"' in text and categories and b'"segments_info"' not in text and b'"shapes"' not in text


def _some_names(text: bytes) -> list[str]:
    names = []
    found = re.findall(_TEXT % b"file_name", text) or re.findall(_TEXT % b"coco_url", text)
    for name in spread(found, _SAMPLE):
        with contextlib.suppress(ValueError):
            names.append(str(json.loads(name)))
    return names


_FORMAT = FileFormat(
    name="coco",
    title="COCO JSON",
    what="a COCO JSON file",
    find_files=find_files,
    usual="instances",  # if other files annotate the same images
    subsets=False,
)
find = _FORMAT.find


def locate(root: str, location: Any) -> tuple[str, str]:
    """Find the annotation file and the image folder of a split.

    `location` is `{"annotations": FILE, "images": FOLDER}`, or just the file, relative to `root`. The image
    folder defaults to `images` if that exists, else to `root`. None means the only COCO JSON file below
    `root`, with the folder in which its images are found.

    Raises:
        ConfigError: if the location has another form.
        DataError: if there is no COCO file, or several.
    """
    if isinstance(location, str):
        location = {"annotations": location}
    if location is None:
        location = _find_one(root)
    if isinstance(location, Mapping):
        usual = "images" if files.is_dir(files.join(root, "images")) else ""
        location = {"images": usual, **location}
    [source] = _FORMAT.sources(root, location)
    return source.annotations, source.images


def _find_one(root: str) -> dict[str, str]:
    """Return the location of the only COCO JSON file, or of the only JSON file in a usual place."""
    listing = list_data_set(root)
    usual = (path for path in listing.paths(".json") if os.path.dirname(path) in ("", "annotations"))
    found = find_files(listing) or dict.fromkeys(usual, AnnotationFile(names=()))
    if len(found) != 1:
        raise DataError(
            f"expected one JSON file to split by ratio, found {sorted(found) or 'none'}; name the file of "
            'each split in data.splits: {"train": {"annotations": FILE, "images": FOLDER}}',
            where=root,
        )
    ((path, file),) = found.items()
    return locate_images(listing, path, file.names, "")


def read(root: str, location: Any) -> Annotations:
    """Read a COCO JSON file. Raises DataError if the whole file cannot be used."""
    path, folder = locate(root, location)
    rejected = Rejections()
    grouping, entries, used = _load(path, rejected)
    names, categories = _categories(entries, path, used)
    frequencies = {entry["name"]: str(entry.get("frequency")) for entry in entries}
    return Annotations(
        categories=categories,
        images=_read_images(grouping, names, folder, os.path.basename(path), rejected),
        rejected=rejected,
        keypoint_names=_keypoint_names([entry for entry in entries if entry["name"] in categories], path),
        frequencies={n: LVIS_FREQUENCIES[f] for n, f in frequencies.items() if f in LVIS_FREQUENCIES},
    )


def _load(path: str, rejected: list[Rejection]) -> tuple[Grouping, list[Any], set[Any]]:
    """Return the images with their annotations, the categories, and the ids of categories with objects."""
    grouping, categories = Grouping(), []
    used: set[Any] = set()
    lists = JsonLists(path, _LISTS)
    for name, entries in lists:
        if name == "categories":
            categories += entries
            continue
        if name == "annotations":
            ids = (entry.get("category_id") for entry in entries if isinstance(entry, dict))
            used.update(number for number in ids if isinstance(number, int | float))
        add, key, reason, expected = _LISTS[name]
        for entry in entries:
            try:
                add(grouping, entry[key], entry)
            except (TypeError, KeyError):
                detail = f"expected {expected}, found {entry!r:.80}"
                rejected.append(Rejection(os.path.basename(path), "", reason, detail))
    for name in ("images", "annotations", "categories"):
        if name not in lists.found:
            raise DataError(f"expected a COCO JSON object with a list {name!r}, found none", where=path)
    return grouping, categories, used


_LISTS: dict[str, Any] = {
    "images": (Grouping.add_image, "id", "malformed_record", "an image with id and file_name"),
    "annotations": (Grouping.add_part, "image_id", "malformed_annotation", "an annotation with an image_id"),
    "categories": None,
}
"""Lists of the file: the grouping method, the key field, and the fault and message if it is missing."""


def _read_images(
    grouping: Grouping, names: dict[int, str], folder: str, file: str, rejected: list[Rejection]
) -> Iterator[AnnotatedImage]:
    available = ImageFiles(folder)
    for entry, parts in grouping:
        if entry is None:
            [annotation] = parts
            number, image_id = annotation.get("id"), annotation["image_id"]
            detail = f"annotation {number} names image {image_id!r}, which is not listed"
            rejected.append(Rejection(file, str(number), "unknown_image", detail))
            continue
        try:
            check_count(len(parts))
            yield _image(entry, parts, names, available)
        except Rejected as e:
            rejected.append(Rejection(str(entry.get("file_name")), str(entry["id"]), e.reason, e.detail))
        except (TypeError, KeyError, AttributeError):
            detail = f"expected an image with id and file_name, found {entry!r:.80}"
            rejected.append(Rejection(file, "", "malformed_record", detail))


def _categories(
    entries: list[Any], path: str, used: Collection[object]
) -> tuple[dict[int, str], dict[str, int]]:
    """Return category id to name, and name to label map id.

    An unused category that is another's supercategory is no class: Roboflow writes one with id 0. Ids from 1
    are kept. If one is below 1, the categories are numbered from 1 in the order of their ids.
    """
    names: dict[int, str] = {}
    taken: set[str] = set()
    for entry in entries:
        try:
            number, name = entry["id"], checked_text(entry["name"], "the category's name")
        except (TypeError, KeyError, Rejected) as e:
            raise DataError(f"expected a category with id and name, found {entry!r:.80}", where=path) from e
        if type(number) is not int or number in names or name in taken:
            raise DataError(
                f"expected categories with unique whole ids and unique names, found {entry!r:.80}", where=path
            )
        names[number] = name
        taken.add(name)
    above = {
        str(entry.get("supercategory")) for entry in entries if entry.get("supercategory") != entry["name"]
    }
    names = {number: name for number, name in names.items() if number in used or name not in above}
    keep = min(names, default=1) >= 1
    labels = {names[n]: n if keep else i for i, n in enumerate(sorted(names), start=1)}
    return names, labels


def _keypoint_names(entries: list[Any], path: str) -> dict[str, list[str]]:
    found = {}
    for entry in entries:
        names = entry.get("keypoints") or []
        if not isinstance(names, list) or len({n for n in names if isinstance(n, str)}) != len(names):
            raise DataError(
                f"expected the keypoints of the category {entry['name']!r} as a list of unique names, found "
                f"{names!r:.80}",
                where=path,
            )
        if names:
            found[entry["name"]] = names
    return found


def _image(
    entry: dict[str, Any], annotations: list[dict[str, Any]], names: dict[int, str], available: ImageFiles
) -> AnnotatedImage:
    name = entry["file_name"] if "file_name" in entry else name_here(entry["coco_url"])  # as in LVIS
    filename = available.find(checked_text(name, "file_name"))
    path = available.path(filename)
    size = [entry.get(key) or 0 for key in ("width", "height")]
    if not all(isinstance(n, int) or (isinstance(n, float) and n.is_integer()) for n in size):
        raise Rejected("malformed_record", f"expected width and height in pixels, found {size!r:.80}")
    objects = [_object(annotation, names) for annotation in annotations]
    labels = _image_labels(entry.get("detflow"), names)
    width, height = map(int, size)
    image = AnnotatedImage(checked_id(str(entry["id"])), filename, path, width, height, objects, labels)
    verified: dict[str, Any] = {
        field: tuple({names[id_]: None for id_ in ids if id_ in names})
        for key, field in LVIS_FIELDS.items()
        if (ids := entry.get(key))
    }
    return image._replace(**verified) if verified else image


def _image_labels(beside: Any, names: dict[int, str]) -> Sequence[ImageLabel]:
    """Return the image-level labels, which COCO lacks and `dataset_conversion` adds."""
    given = beside.get("labels") if isinstance(beside, Mapping) else None
    if not isinstance(given, list):
        return ()
    found = []
    for label in given:
        number, confidence = label.get("category_id"), _fraction(label.get("confidence"))
        if number not in names or confidence is None:
            raise Rejected("malformed_record", f"expected labels of listed categories, found {label!r:.80}")
        found.append(ImageLabel(names[number], confidence))
    return found


def _object(annotation: dict[str, Any], names: dict[int, str]) -> AnnotatedObject:
    get = annotation.get
    label = f"annotation {get('id')}"
    try:
        x, y, width, height = annotation["bbox"]
        area = get("area") or 0.0
        if not float is type(x) is type(y) is type(width) is type(height) is type(area):
            x, y, width, height, area = _numbers((x, y, width, height, area))
        crowd, name = get("iscrowd") or 0, names.get(annotation["category_id"])
    except (TypeError, KeyError, ValueError, OverflowError) as e:
        found = {key: get(key) for key in ("bbox", "area", "category_id")}
        detail = f"{label}: expected bbox of 4 numbers and category_id, found {found!r:.200}"
        raise Malformed(detail) from e
    if crowd not in (0, 1):
        raise Malformed(f"{label}: expected iscrowd 0 or 1, found {crowd!r:.80}")
    if name is None:
        detail = f"{label}: category {annotation['category_id']!r:.80} is not listed"
        raise Rejected("unknown_category", detail)
    mask = _mask(segmentation, label) if (segmentation := get("segmentation")) else None
    points = _keypoints(values, label) if (values := get("keypoints")) else None
    box = (x, y, x + width, y + height)
    item = AnnotatedObject(name, box, area, int(crowd), None, None, None, label, mask, points)
    return item if EXTRA_FIELDS.keys().isdisjoint(annotation) else _with_extra_fields(item, annotation)


def _with_extra_fields(item: AnnotatedObject, annotation: dict[str, Any]) -> AnnotatedObject:
    values = {
        field: value
        for key, parsers in EXTRA_FIELDS.items()
        if isinstance(given := annotation.get(key), Mapping)
        for field, parse in parsers.items()
        if (value := parse(given.get(field))) is not None
    }
    return item._replace(**values) if values else item


def _flag(value: object) -> int | None:
    """Return 0 or 1; None for other values, because users may define an attribute with this name."""
    return int(value) if value in (0, 1) and isinstance(value, int) else None


def _fraction(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < _LARGEST_WEIGHT else None


_LARGEST_WEIGHT = 1e6
EXTRA_FIELDS: dict[str, dict[str, Callable[[object], Any]]] = {
    "attributes": dict.fromkeys(("difficult", "truncated", "occluded"), _flag),
    "detflow": {
        "pose": lambda value: value if isinstance(value, str) and value.isprintable() else None,
        **dict.fromkeys(("group_of", "depiction"), _flag),
        **dict.fromkeys(("confidence", "weight"), _fraction),
    },
}
"""Key of an annotation to fields that COCO lacks, and their readers: CVAT's `attributes`, and `detflow`."""


def _mask(segmentation: Any, label: str) -> Polygons | RunLengths | None:
    """Return the mask; None for empty polygons, which tools write for objects with a box only."""
    try:
        if isinstance(segmentation, Mapping):
            (height, width), counts = segmentation["size"], segmentation["counts"]
            if isinstance(counts, str | list) and type(height) is type(width) is int:
                return RunLengths(height, width, counts)
        elif isinstance(segmentation, list) and all(isinstance(ring, list) for ring in segmentation):
            return Polygons([array.array("d", ring) for ring in segmentation]) if any(segmentation) else None
    except (TypeError, KeyError, ValueError, OverflowError):
        pass
    raise Rejected("malformed_mask", f"{label}: expected polygons or run lengths, found {segmentation!r:.80}")


def _keypoints(values: Any, label: str) -> list[Keypoint]:
    try:
        x, y, seen = (_numbers(values[axis::3]) for axis in range(3))
        return [(a, b, int(v)) for a, b, v in zip(x, y, seen, strict=True)]
    except (TypeError, ValueError, OverflowError) as e:
        detail = f"{label}: expected x, y and visibility of each keypoint, found {values!r:.80}"
        raise Rejected("malformed_keypoints", detail) from e


def _numbers(values: Sequence[object]) -> list[float]:
    if not _NUMBERS.issuperset(map(type, values)):
        raise TypeError(values)
    return list(map(float, values))  # type: ignore[arg-type]


_NUMBERS = {int, float}
