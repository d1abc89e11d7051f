"""Open Images: CSV files of boxes, image-level labels and masks, and a folder of JPEG files.

Only rows whose image is in the folder count: most users have all rows, but only some of the images.
"""

import dataclasses
import itertools
import logging
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from detection_core.bounded.limits import MAX_JSON_VALUES
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Annotations,
    ImageLabel,
    Malformed,
    MaskFile,
    Rejected,
    Rejection,
    Rejections,
    check_count,
    checked_id,
    checked_text,
    rejecting,
)
from detection_core.datasets.formats.annotation_files import FileFormat, Source
from detection_core.datasets.formats.open_images_files import (
    BOX_COLUMNS,
    LABEL_COLUMNS,
    MASK_COLUMNS,
    Hierarchy,
    find_boxes,
    find_companions,
    read_descriptions,
    read_hierarchy,
    read_rows,
)
from detection_core.datasets.grouping import Grouping
from detection_core.datasets.image_files import ImageFiles
from detection_core.datasets.layouts import list_data_set, stem
from detection_core.errors import DataError
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing

LOOKS_FOR = "Open Images: a .csv file with the columns ImageID, LabelName, XMin, XMax, YMin and YMax"

_WHAT = "a CSV file of Open Images' boxes"
_SIDES = ("XMin", "YMin", "XMax", "YMax")
_FLAGS = ("IsOccluded", "IsTruncated", "IsGroupOf", "IsDepiction")
_TABLES = {
    "box": (BOX_COLUMNS, (*_SIDES, *_FLAGS)),
    "label": (LABEL_COLUMNS, ("Confidence",)),
    "mask": (MASK_COLUMNS, (*(f"Box{side}" for side in _SIDES), "MaskPath")),
}
"""Kind of a row to its table's columns, and to those that are kept."""

_FLAG = {"0": 0, "1": 1, "-1": None, "": None}  # -1: not asked
_SAME_BOX = 2e-3
"""Largest rounding difference between equal boxes' sides, as a fraction of the image."""

_logger = logging.getLogger(__name__)


_FORMAT = FileFormat(name="open_images", title="Open Images", what=_WHAT, find_files=find_boxes)
find = _FORMAT.find


def locate(root: str, location: Any) -> list[str]:
    """Find the files of a split and its image folder.

    `location` is `{"annotations": FILE, "images": FOLDER}`, the file of boxes; None means all files of the
    format. With `"hierarchy": FILE` an object also counts for all classes that contain its class. Class
    descriptions, image labels and masks of the split are found next to that file.

    Raises:
        ConfigError: if the location has another form.
        DataError: if one of them is missing.
    """
    sources, hierarchy = _open(root, location)
    found, listing = [hierarchy] if hierarchy else [], list_data_set(root)
    for source in sources:
        more = find_companions(listing, os.path.relpath(source.annotations, root))
        paths = [files.join(root, p) for p in (more.descriptions, *more.labels, *more.masks) if p]
        found += [source.annotations, source.images, *paths]
    return list(dict.fromkeys(found))


def _open(root: str, location: Any) -> tuple[list[Source], str]:
    hierarchy = ""
    if isinstance(location, Mapping) and "hierarchy" in location:
        hierarchy = files.join(root, str(location["hierarchy"]))
        location = {key: value for key, value in location.items() if key != "hierarchy"}
        if not files.exists(hierarchy):
            raise DataError("expected a hierarchy of classes, found nothing", where=hierarchy)
    return _FORMAT.sources(root, location), hierarchy


def read(root: str, location: Any) -> Annotations:
    """Read a split's rows by image on disk; DataError for an unusable file, or if images are missing."""
    sources, hierarchy_path = _open(root, location)
    hierarchy = read_hierarchy(hierarchy_path) if hierarchy_path else Hierarchy()
    found = Annotations(rejected=Rejections())
    listing = list_data_set(root)
    streams = [_read_source(listing, source, hierarchy, found) for source in sources]
    return dataclasses.replace(found, images=itertools.chain.from_iterable(streams))


def _read_source(
    listing: FolderListing, source: Source, hierarchy: Hierarchy, found: Annotations
) -> Iterator[AnnotatedImage]:
    more = find_companions(listing, os.path.relpath(source.annotations, listing.root))
    names = read_descriptions(listing.path(more.descriptions)) if more.descriptions else {}
    images = ImageFiles(source.images)
    rows = _Rows(images, names, hierarchy, found.rejected)
    rows.read(source.annotations, "box")
    found.categories.update(dict.fromkeys(rows.classes, 0))
    for path in more.labels:
        rows.read(listing.path(path), "label")
    for path in more.masks:
        rows.read(listing.path(path), "mask")
    if not rows.named:
        raise DataError(
            f"expected images that {source.annotations} names, found none of them; correct data.splits",
            where=source.images,
        )
    if rows.elsewhere:
        _logger.warning("ingest | %d rows are of images that %s lacks", rows.elsewhere, source.images)
    masks = {posixpath.basename(p): listing.path(p) for p in listing.paths(".png")} if more.masks else {}
    return _read_images(rows, masks)


class _Part(NamedTuple):
    """A row: its kind (box, label or mask), line and class, and its numbers as text."""

    kind: str
    line: int
    name: str
    fields: tuple[str, ...]


class _Rows:
    """The rows of all files, by image."""

    def __init__(
        self, images: ImageFiles, names: Mapping[str, str], hierarchy: Hierarchy, rejected: list[Rejection]
    ) -> None:
        self.images, self.rejected = images, rejected
        self.grouping = Grouping()
        self.classes: dict[str, None] = {}
        self.named = self.elsewhere = 0
        self._names, self._hierarchy = names, hierarchy
        for path in images:
            image_id = stem(posixpath.basename(path))
            if image_id not in self.grouping:
                self.grouping.add_image(image_id, [image_id, path])

    def read(self, path: str, kind: str) -> None:
        """Add the rows of a file of boxes, labels or masks whose image is in the folder."""
        columns, fields = _TABLES[kind]
        for line, row in read_rows(path, columns):
            if isinstance(row, Rejected):
                self.rejected.append(Rejection(os.path.basename(path), str(line), row.reason, row.detail))
                continue
            if row["ImageID"] not in self.grouping:
                self.elsewhere += 1
                continue
            self.named += 1
            values = tuple(row.get(field, "") for field in fields)
            try:
                confidence = float(row["Confidence"]) if kind == "label" else 1.0
            except ValueError:  # reported with the image
                confidence = 0.0
            for label in (row["LabelName"], *self._hierarchy.implied(row["LabelName"], confidence)):
                name = self._names.get(label, label)
                self.grouping.add_part(row["ImageID"], (kind, line, name, values))
                if kind == "box":
                    self.classes[name] = None


def _read_images(rows: _Rows, masks: Mapping[str, str]) -> Iterator[AnnotatedImage]:
    for image, parts in rows.grouping:
        if not parts:
            continue
        image_id, path = image
        with rejecting(rows.rejected, path, image_id):
            check_count(len(parts))
            where = rows.images.path(checked_text(path, "the image's name"))
            yield _image(checked_id(image_id), path, where, map(_Part._make, parts), masks)


def _image(
    image_id: str, filename: str, path: str, parts: Iterable[_Part], masks: Mapping[str, str]
) -> AnnotatedImage:
    of_kind: dict[str, list[_Part]] = {"box": [], "label": [], "mask": []}
    for part in parts:
        of_kind[part.kind].append(part)
    objects = [_object(part) for part in of_kind["box"]]
    check_count(len(objects) * len(of_kind["mask"]), "pairs of boxes and masks of an image", MAX_JSON_VALUES)
    for part in of_kind["mask"]:
        _add_mask(part, objects, masks)
    labels = [ImageLabel(part.name, _confidence(part)) for part in of_kind["label"]]
    return AnnotatedImage(image_id, filename, path, 0, 0, objects, labels, in_fractions=True)


def _object(part: _Part) -> AnnotatedObject:
    try:
        occluded, truncated, group_of, depiction = (_FLAG[flag] for flag in part.fields[4:])
    except KeyError as e:
        raise Malformed(f"line {part.line}: expected flags of 0, 1 or -1: {e}") from e
    return AnnotatedObject(
        part.name,
        _box(part),
        truncated=truncated,
        label=f"line {part.line}",
        occluded=occluded,
        group_of=group_of,
        depiction=depiction,
    )


def _add_mask(part: _Part, objects: list[AnnotatedObject], masks: Mapping[str, str]) -> None:
    """Assign a mask to the object with its box, unless the mask's file was not downloaded."""
    path = masks.get(posixpath.basename(part.fields[4]))
    if path is None:
        return
    box = _box(part)
    for index, item in enumerate(objects):
        is_same = all(abs(a - b) <= _SAME_BOX for a, b in zip(item.box, box, strict=True))
        if item.name == part.name and item.mask is None and is_same:
            objects[index] = item._replace(mask=MaskFile(path))
            return


def _box(part: _Part) -> tuple[float, float, float, float]:
    xmin, ymin, xmax, ymax = _numbers(part, 4)
    return xmin, ymin, xmax, ymax


def _confidence(part: _Part) -> float:
    [confidence] = _numbers(part, 1)
    if not 0 <= confidence <= 1:
        raise Rejected("malformed_record", f"line {part.line}: expected 0 to 1, found {confidence}")
    return confidence


def _numbers(part: _Part, count: int) -> list[float]:
    try:
        return list(map(float, part.fields[:count]))
    except ValueError as e:
        raise Malformed(f"line {part.line}: expected numbers: {e}") from e
