"""Finds the data sets in a folder from file names and the beginnings of files.

Some formats are recognised but not read; each names a supported format to convert to.
"""

import dataclasses
import itertools
import json
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from detection_core.datasets.formats.csv_rows import is_number
from detection_core.datasets.image_parts import find_parts, part_names
from detection_core.datasets.layouts import (
    Layout,
    count_kinds,
    is_by_ratio,
    is_image,
    list_data_set,
    name_splits,
    spread,
    stem,
)
from detection_core.datasets.readers import READERS, find_reader
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing

AUTO = "auto"
"""Value of `data.format` for detection."""

YAML = (".yaml", ".yml")
_OF_YAML = "yolo"
_MOST_NAMED = 5
_USUAL = "coco"
"""Format of old settings without `data.format`."""


def find_layouts(root: str) -> list[Layout]:
    """Return the data sets in a folder or object store, or that of a YOLO data.yaml, the best first.

    A set with fewer than half the images of the largest one comes last. Ties follow the order of
    `readers.READERS`.

    Raises:
        DataError: if the folder is missing or holds no known data set; the message contains
            `describe_search`.
    """
    readers, file = list(READERS.values()), ""
    if root.lower().endswith(YAML) and files.exists(root) and not files.is_dir(root):
        root, _, file = root.rpartition("/")
        listing, readers = _with_one_yaml(list_data_set(root, bounded=True), file), [READERS[_OF_YAML]]
    else:
        listing = list_data_set(root, bounded=True)
    found: list[Layout] = []
    failures: list[str] = []
    for reader in readers:
        try:
            layout = reader.find(listing)
        except DataError as e:
            failures.append(str(e))
            continue
        if layout:
            layout = _divided(listing, layout) if reader.image_files else layout
            found.append(dataclasses.replace(layout, evidence=layout.evidence + _left_out(listing)))
    if not found and (other := name_other(listing)):
        raise DataError(f"expected an annotated data set. {other}", where=root)
    if not found:
        reasons = "".join(f" {failure}." for failure in failures)
        raise DataError(f"expected an annotated data set.{reasons} {_describe(listing)}", where=root)
    if file and is_by_ratio(found[0].splits) and readers[0].locate(root, None)[0] != files.join(root, file):
        raise DataError(
            f"expected one YAML file of a set that is not divided, found another one beside {file}; move it"
            " away",
            where=root,
        )
    most = max(layout.images for layout in found)
    return sorted(found, key=lambda layout: 2 * layout.images < most)


def _with_one_yaml(listing: FolderListing, file: str) -> FolderListing:
    """Return a listing that keeps only this YAML file of the root folder."""
    folders = {
        folder: [name for name in names if not name.lower().endswith(YAML) or (not folder and name == file)]
        for folder, names in listing.folders.items()
    }
    return dataclasses.replace(listing, folders=folders)


def _divided(listing: FolderListing, layout: Layout) -> Layout:
    """Divide a set without splits by lists or folders of its images."""
    if not is_by_ratio(layout.splits):
        return layout
    inside = layout.path.removeprefix(listing.root).strip("/")
    folders = {
        path.removeprefix(inside).lstrip("/"): names
        for path, names in listing.folders.items()
        if not inside or f"{path}/".startswith(f"{inside}/")
    }
    parts = find_parts(dataclasses.replace(listing, root=layout.path, folders=folders), layout.names)
    if not parts:
        return layout
    by = ", ".join(str(part) for location in parts.values() for part in part_names(location) or ())
    return dataclasses.replace(
        layout, splits=name_splits(parts), evidence=f"{layout.evidence}, divided by {by}"
    )


def find_layout(root: str, data_format: str = "") -> Layout:
    """Return the best data set in a folder, of a format if one is given.

    Raises:
        ConfigError: for an unknown format.
        DataError: as `find_layouts`; also when there is no data set of the format.
    """
    if data_format:
        find_reader(data_format)
    layouts = [layout for layout in find_layouts(root) if data_format in ("", layout.format)]
    if not layouts:
        raise DataError(f"expected a data set of the format {data_format}, found others", where=root)
    return layouts[0]


def find_format(root: str, locations: Sequence[Any]) -> tuple[str, str]:
    """Return the folder and format of a data set whose settings give no format.

    The splits' locations are relative to `root`; None means a set that is divided by ratio.

    Raises:
        DataError: if there is none; the message lists the formats that were tried.
    """
    if set(map(type, locations)) == {type(None)}:
        try:
            layout = find_layout(root)
        except DataError:
            if name_other(list_data_set(root, bounded=True)) or not _leads_somewhere(_USUAL, root, locations):
                raise
            return root, _USUAL
        return layout.path, layout.format
    fitting = [name for name in READERS if _leads_somewhere(name, root, locations)]
    named = list(_named_files(root, locations))
    for name in fitting:
        if named and all(_recognises(name, root, path) for path in named):
            return root, name
    try:
        found = [layout.format for layout in find_layouts(root) if layout.format in fitting]
    except DataError:
        if _USUAL not in fitting:
            raise
        found = []
    if not found and _USUAL not in fitting:
        raise DataError(
            f"expected data.splits that lead to a data set that is there. {describe_search(root)}", where=root
        )
    return root, (found or [_USUAL])[0]


def _leads_somewhere(data_format: str, root: str, locations: Sequence[Any]) -> bool:
    """Return whether a reader finds the files of all splits."""
    try:
        for location in locations:
            READERS[data_format].locate_split(root, location)
    except (ConfigError, DataError):
        return False
    return True


def _named_files(root: str, locations: Sequence[Any]) -> Iterator[str]:
    """Yield the annotation files that splits name."""
    for location in locations:
        name = location.get("annotations") if isinstance(location, Mapping) else location
        if isinstance(name, str) and files.exists(path := files.join(root, name)) and not files.is_dir(path):
            yield posixpath.normpath(name)


def _recognises(data_format: str, root: str, path: str) -> bool:
    """Return whether a reader recognises a file without other files in its folder."""
    folder, _, name = path.rpartition("/")
    folders = {"": (), folder: (name,)} if folder else {"": (name,)}
    try:
        alone = FolderListing(root=root, folders=folders, complete=True)
        return READERS[data_format].find(alone) is not None
    except DataError:
        return False


def describe_search(root: str) -> str:
    """Describe the searched patterns and the folder's content; DataError without the folder."""
    return _describe(list_data_set(root, bounded=True))


def _describe(listing: FolderListing) -> str:
    wanted = "; ".join(reader.looks_for for reader in READERS.values() if reader.looks_for)
    images = sum(1 for path in listing.paths() if is_image(path))
    alone = f"; {images} images without annotations, which `detflow predict` takes" if images else ""
    partly = "" if listing.complete else " (there are more than were looked at)"
    return f"Looked for {wanted}. Found {count_kinds(listing)}{partly}{alone}{_left_out(listing)}"


def _left_out(listing: FolderListing) -> str:
    """Name the skipped folders with the reasons; "" if there are none."""
    named = [f"{folder} ({why})" for folder, why in list(listing.left_out.items())[:_MOST_NAMED]]
    more = len(listing.left_out) - len(named)
    return f"; not looked at: {', '.join(named)}{f' and {more} more' if more else ''}" if named else ""


_HEAD = 1 << 16
_SAMPLE, _MOST_SAMPLES = 3, 60
_KITTI_FIELDS = (15, 16)
"""Fields of a line: class, truncated, occluded, alpha, box, size, position, angle; results add a score."""


def name_other(listing: FolderListing) -> str:
    """Return the unsupported format in a folder and a format to convert to; "" if unknown."""
    for recognises, name, way in _OTHERS:
        if recognises(listing):
            return f"Found {name}, which is not read. Convert it to COCO JSON or YOLO: {way}"
    return ""


def _samples(listing: FolderListing, *suffixes: str) -> Iterator[tuple[str, bytes]]:
    """Yield some files of each folder with their beginnings."""
    fitting = (
        posixpath.join(folder, name)
        for folder, names in listing.folders.items()
        for name in spread([name for name in names if name.lower().endswith(suffixes)], _SAMPLE)
    )
    for path in itertools.islice(fitting, _MOST_SAMPLES):
        yield path, listing.ends(path, _HEAD)[0]


def _is_kitti(listing: FolderListing) -> bool:
    """Look for text files with an image's name and an object's fields in every line."""
    images = {stem(posixpath.basename(path)) for path in listing.paths() if is_image(path)}
    for path, head in _samples(listing, ".txt"):
        lines = [line.split() for line in head.decode(errors="replace").splitlines()[:_SAMPLE]]
        if (
            stem(posixpath.basename(path)) in images
            and lines
            and all(len(words) in _KITTI_FIELDS and not is_number(words[0]) for words in lines)
            and all(is_number(word) for words in lines for word in words[1:])
        ):
            return True
    return False


def _holds(suffix: str, *words: bytes) -> Callable[[FolderListing], bool]:
    """Return a detector of files with all of these words near the beginning."""

    def recognises(listing: FolderListing) -> bool:
        return any(all(word in head for word in words) for _, head in _samples(listing, suffix))

    return recognises


def _is_hugging_face(listing: FolderListing) -> bool:
    """Look for metadata next to images: one line per image, with its file name."""
    for path, head in _samples(listing, "metadata.jsonl", "metadata.csv"):
        first = head.partition(b"\n")[0]
        if path.endswith(".csv"):
            found = b"file_name" in first.split(b",") and b"objects" in first
        else:
            try:
                found = "file_name" in json.loads(first)
            except (ValueError, TypeError, RecursionError):
                found = False
        if found:
            return True
    return any(name.lower().endswith(".parquet") for names in listing.folders.values() for name in names)


_OTHERS: tuple[tuple[Callable[[FolderListing], bool], str, str], ...] = (
    (_is_kitti, "KITTI labels", "Datumaro or FiftyOne do that"),
    (
        _holds(".json", b'"classTitle"', b'"geometryType"'),
        "a Supervisely project",
        "its app `Export to COCO` does that",
    ),
    (
        _holds(".json", b"darwin", b'"annotations"'),
        "Darwin JSON of V7",
        "`darwin convert coco` does that, or an export as COCO",
    ),
    (
        _holds(".json", b'"__VIA_PROJECT_ID__"'),
        "a project of VIA 3",
        "export it as COCO, or annotate with VIA 2",
    ),
    (
        _is_hugging_face,
        "a Hugging Face data set (metadata or Parquet files)",
        "its `objects` need class names, as `features` has them",
    ),
)
