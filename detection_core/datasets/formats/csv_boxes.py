"""CSV files of boxes: a row an object."""

from __future__ import annotations

from typing import Any

from detection_core.datasets.annotated_images import (
    MAX_ANNOTATION_BYTES,
    AnnotatedImage,
    Annotations,
    Rejected,
    Rejection,
    checked_id,
    checked_text,
)
from detection_core.datasets.formats.annotation_files import (
    AnnotationFile,
    Source,
    describe_files,
    locate_paths,
    locate_sources,
)
from detection_core.datasets.formats.csv_rows import SETS, UNASSIGNED, Row, decode, find_columns, read_rows
from detection_core.datasets.image_files import ImageFiles
from detection_core.datasets.layouts import Layout
from detection_core.datasets.shapes import make_object
from detection_core.datasets.unannotated import image_without_objects
from detection_core.errors import DataError
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing

LOOKS_FOR = (
    "CSV: filename, class, xmin, ymin, xmax, ymax in the first row, or an importer's columns without one"
)

_WHAT = "a CSV file of boxes"
_SAMPLE = 50


def find(listing: FolderListing) -> Layout | None:
    """Find the CSV files of boxes in a folder, and where their images are.

    Raises:
        DataError: when there are several files, and no telling which split each is.
    """
    return describe_files(listing, "csv", "CSV", find_files(listing))


def find_files(listing: FolderListing) -> dict[str, AnnotationFile]:
    """Return the CSV files of boxes in a folder."""
    found = {}
    for path in listing.paths(".csv", ".tsv"):
        head, tail = listing.ends(path)
        try:
            text = decode(head[: head.rfind(b"\n") + 1] if tail else head, path)
            rows = (
                [row for row in read_rows(text, path) if isinstance(row, Row)] if find_columns(text) else []
            )
        except DataError:
            continue
        if rows:
            subsets = {SETS[row.subset]: row.subset for row in rows if row.subset in SETS}
            found[path] = AnnotationFile(names=[row.image for row in rows[:_SAMPLE]], subsets=subsets)
    return found


def locate(root: str, location: Any) -> list[str]:
    """Find the CSV file and the image folder of a split.

    Args:
        root: folder of the data set.
        location: `{"annotations": FILE, "images": FOLDER}`, relative to `root`, with `"subset": "TRAIN"` for
            the rows of a set; None for every such file below `root`.

    Raises:
        ConfigError: when the location is something else.
        DataError: when one of them is not there.
    """
    return locate_paths(root, location, find_files, _WHAT)


def read(root: str, location: Any) -> Annotations:
    """Read CSV files of boxes. The categories are the classes that occur; the format has no list of them.

    A row without class and box names an image that shows nothing. Rows of no set go with those for training.

    Args:
        root: folder of the data set.
        location: see `locate`.

    Raises:
        DataError: when a file as a whole cannot be used.
    """
    images: list[AnnotatedImage] = []
    rejected: list[Rejection] = []
    about: set[str] = set()
    folders: dict[str, ImageFiles] = {}
    for source in locate_sources(root, location, find_files, _WHAT):
        available = folders.setdefault(source.images, ImageFiles(source.images))
        about |= _read_file(source, available, images, rejected)
    unannotated = [
        image_without_objects(name, name, available.path(name))
        for available in folders.values()
        for name in available
        if available.path(name) not in about and name.isprintable()
    ]
    return Annotations(
        categories={item.name: 0 for image in images for item in image.objects},
        images=images,
        rejected=rejected,
        unannotated=unannotated,
        about=about,
    )


def _read_file(
    source: Source, available: ImageFiles, images: list[AnnotatedImage], rejected: list[Rejection]
) -> set[str]:
    """Read a file, and return the paths of all images that its rows are about, of other sets too."""
    try:
        text = decode(files.read_regular(source.annotations, MAX_ANNOTATION_BYTES), source.annotations)
    except OSError as e:
        raise DataError(
            f"expected {_WHAT}, found one that cannot be read: {e.strerror}", where=source.annotations
        ) from e
    name = source.annotations.rpartition("/")[2]
    by_image: dict[str, list[Row]] = {}
    elsewhere: dict[str, None] = {}
    for row in read_rows(text, source.annotations):
        if not isinstance(row, Row):
            line, error = row
            rejected.append(Rejection(name, f"line {line}", error.reason, error.detail))
        elif _is_in(row, source.subset):
            by_image.setdefault(row.image, []).append(row)
        else:
            elsewhere[row.image] = None
    for image, rows in by_image.items():
        try:
            images.append(_image(image, rows, available))
        except Rejected as e:
            rejected.append(Rejection(name, image, e.reason, e.detail))
    return {path for image in (*by_image, *elsewhere) for path in _paths_of(image, available)}


def _paths_of(image: str, available: ImageFiles) -> set[str]:
    try:
        return {available.path(available.find(image))}
    except Rejected:
        return set()


def _is_in(row: Row, subset: str) -> bool:
    wanted = SETS.get(subset)
    unassigned = row.subset in UNASSIGNED and wanted == "train"
    return not subset or unassigned or SETS.get(row.subset, row.subset) == (wanted or subset)


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
            objects.append(make_object(row.name, row.box, f"line {row.line}"))
    return AnnotatedImage(
        source_id=checked_id(filename),
        filename=filename,
        path=available.path(filename),
        width=int(rows[0].size[0]),
        height=int(rows[0].size[1]),
        objects=objects,
        in_fractions=rows[0].relative,
    )
