"""Formats that are recognised but not read, each with a supported format to convert to."""

from __future__ import annotations

import itertools
import json
import posixpath
from collections.abc import Callable, Iterator

from detection_core.datasets.layouts import is_image, spread, stem
from detection_core.storage.folder_listing import FolderListing

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
            and all(len(words) in _KITTI_FIELDS and not _is_number(words[0]) for words in lines)
            and all(_is_number(word) for words in lines for word in words[1:])
        ):
            return True
    return False


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


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
