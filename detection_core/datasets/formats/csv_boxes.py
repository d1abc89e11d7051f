"""CSV files of boxes: one row per object."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Annotations,
    Rejected,
    Rejection,
    Rejections,
    check_count,
    checked_id,
    checked_text,
    rejecting,
)
from detection_core.datasets.formats.annotation_files import AnnotationFile, FileFormat, Source
from detection_core.datasets.formats.csv_rows import UNASSIGNED, Row, decode_head, open_csv, read_rows
from detection_core.datasets.grouping import Grouping
from detection_core.datasets.image_files import ImageFiles, image_without_objects
from detection_core.datasets.layouts import TRAIN, split_word, spread
from detection_core.errors import DataError
from detection_core.storage.folder_listing import FolderListing

LOOKS_FOR = (
    "CSV: filename, class, xmin, ymin, xmax, ymax in the first row, or an importer's columns without one"
)

_SAMPLE = 100


def find_files(listing: FolderListing) -> dict[str, AnnotationFile]:
    """Return the CSV files of boxes in a folder."""
    found = {}
    for path in listing.paths(".csv", ".tsv"):
        head, tail = listing.ends(path)
        try:
            text = decode_head(head[: head.rfind(b"\n") + 1] if tail else head)
            rows = [row for row in read_rows(text, path) if isinstance(row, Row)]
        except (DataError, UnicodeError):
            continue
        if rows:
            subsets = {split: row.subset for row in rows if (split := split_word(row.subset))}
            found[path] = AnnotationFile(
                names=spread(list(dict.fromkeys(row.image for row in rows)), _SAMPLE), subsets=subsets
            )
    return found


_FORMAT = FileFormat(name="csv", title="CSV", what="a CSV file of boxes", find_files=find_files)
find, locate = _FORMAT.find, _FORMAT.locate


def read(root: str, location: Any) -> Annotations:
    """Read CSV files of boxes. The categories are the classes that occur; the format does not list them.

    A row without class and box means an image without objects. Rows without a set belong to training. In the
    location, `"subset": "TRAIN"` means the rows of a set; see `FileFormat.sources`.

    Raises:
        DataError: if a whole file cannot be used.
    """
    found = Annotations(rejected=Rejections())
    folders: dict[str, ImageFiles] = {}
    streams = []
    for source in _FORMAT.sources(root, location):
        available = folders.setdefault(source.images, ImageFiles(source.images))
        rows = _group(source, found.rejected)
        found.about.update(path for image in rows.names for path in _paths_of(image, available))
        streams.append(_read_images(source, rows, available, found))
    found.unannotated.extend(
        image_without_objects(name, name, available.path(name))
        for available in folders.values()
        for name in available
        if available.path(name) not in found.about and name.isprintable()
    )
    return dataclasses.replace(found, images=itertools.chain.from_iterable(streams))


class _Grouped(NamedTuple):
    """A file's rows by image, and the names of all images, other sets and rejected rows included.

    Boxes are in fractions of the image if no coordinate exceeds 1.
    """

    by_image: Grouping
    names: Iterable[str]
    in_fractions: bool


def _group(source: Source, rejected: list[Rejection]) -> _Grouped:
    grouping, name = Grouping(), source.annotations.rpartition("/")[2]
    names: dict[str, None] = {}
    least = most = 0.0
    is_broken = False
    with open_csv(source.annotations) as text:
        for row in read_rows(text, source.annotations):
            if not isinstance(row, Row):
                line, error = row
                rejected.append(Rejection(name, f"line {line}", error.reason, error.detail))
                names |= dict.fromkeys(filter(None, error.mentions))
                continue
            names[row.image] = None
            least, most = min(least, *row.box or (0,)), max(most, *row.box or (0,))
            is_broken = is_broken or any(side % 1 for side in row.box or ())
            if _is_in(row, source.subset):
                if row.image not in grouping:
                    grouping.add_image(row.image, row.image)
                grouping.add_part(row.image, tuple(row))
    return _Grouped(grouping, names, is_broken and least >= 0 and most <= 1)


def _read_images(
    source: Source, grouped: _Grouped, available: ImageFiles, found: Annotations
) -> Iterator[AnnotatedImage]:
    name = source.annotations.rpartition("/")[2]
    for image, rows in grouped.by_image:
        with rejecting(found.rejected, name, image):
            check_count(len(rows))
            read = _image(image, list(map(Row._make, rows)), available)
            found.categories.update((item.name, 0) for item in read.objects)
            yield read._replace(in_fractions=read.in_fractions or grouped.in_fractions)


def _paths_of(image: str, available: ImageFiles) -> set[str]:
    try:
        return {available.path(available.find(image))}
    except Rejected:
        return set()


def _is_in(row: Row, subset: str) -> bool:
    wanted = split_word(subset)
    unassigned = row.subset in UNASSIGNED and wanted == TRAIN
    return not subset or unassigned or (split_word(row.subset) or row.subset) == (wanted or subset)


def _image(image: str, rows: list[Row], available: ImageFiles) -> AnnotatedImage:
    filename = available.find(checked_text(image, "the image's name"))
    sizes = {row.size for row in rows}
    if len(sizes) > 1 or not all(side.is_integer() and side >= 0 for side in map(float, rows[0].size)):
        raise Rejected(
            "malformed_record", f"expected one size of the image in pixels, found {sorted(sizes)[:3]}"
        )
    objects = []
    for row in rows:
        if row.box is not None:
            checked_text(row.name, "a class")
            objects.append(AnnotatedObject(row.name, row.box, label=f"line {row.line}"))
    return AnnotatedImage(
        source_id=checked_id(filename),
        filename=filename,
        path=available.path(filename),
        width=int(rows[0].size[0]),
        height=int(rows[0].size[1]),
        objects=objects,
        in_fractions=rows[0].relative,
    )
