"""Finds COCO JSON files and their image folders, whatever they are called."""

from __future__ import annotations

import collections
import json
import posixpath
import re
from collections.abc import Mapping, Sequence

from detection_core.datasets.layouts import (
    Layout,
    count_images,
    name_folder,
    name_splits,
    split_of_path,
    split_word,
)
from detection_core.errors import DataError
from detection_core.storage.folder_listing import FolderListing

LOOKS_FOR = "COCO JSON: a .json file with the lists images, annotations and categories"

_MOST_FILES = 50
"""JSON files in one folder above which only some are opened: then there is one an image."""

_SAMPLE = 20
_FILE_NAME = re.compile(rb'"file_name"\s*:\s*("(?:[^"\\]|\\.)*")')
_USUAL = "instances"
"""What the files of boxes are called, where there are others for the same images."""


def find(listing: FolderListing) -> Layout | None:
    """Find the COCO JSON files in a folder, and where their images are.

    Args:
        listing: of the folder.

    Raises:
        DataError: when there are several files, and no telling which split each is.
    """
    found = find_files(listing)
    if not found:
        return None
    chosen = {split: _only(listing.root, paths) for split, paths in _by_split(found).items()}
    locations = {split: locate_images(listing, path, found[path], split) for split, path in chosen.items()}
    splits = name_splits(locations)
    used = [where for where in splits.values() if where in locations.values()]
    if not used:
        only = _only(listing.root, list(found))
        used = [locate_images(listing, only, found[only], "")]
    annotations = [where["annotations"] for where in used]
    folders = sorted({where["images"] for where in used if "images" in where})
    count = count_images(listing, folders)
    others = [path for path in found if path not in annotations]
    beside = f"; not taken: {', '.join(others[:4])}" if others else ""
    in_folders = ", ".join(map(name_folder, folders)) or "no folder that was found"
    return Layout(
        format="coco",
        path=listing.root,
        splits=splits,
        evidence=f"COCO JSON in {', '.join(annotations)}, {count} images in {in_folders}{beside}",
        images=count,
    )


def find_files(listing: FolderListing) -> dict[str, list[str]]:
    """Return the COCO JSON files in a folder, each with the names of some of its images."""
    found = {}
    for folder, names in listing.folders.items():
        candidates = [posixpath.join(folder, name) for name in names if name.lower().endswith(".json")]
        if len(candidates) > _MOST_FILES:
            candidates = candidates[:: len(candidates) // 3][:3]
        for path in candidates:
            head, tail = listing.ends(path)
            if is_coco(head, tail):
                found[path] = _some_names(head + tail)
    return found


def is_coco(head: bytes, tail: bytes) -> bool:
    """Tell whether a file with this beginning and end is COCO JSON with objects."""
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    text = head + tail
    # Files of captions name no category, those of panoptic segmentation no object.
    categories = b'"category_id"' in text or b'"categories"' in text
    return b'"images"' in text and categories and b'"segments_info"' not in text and b'"shapes"' not in text


def locate_images(listing: FolderListing, path: str, names: Sequence[str], split: str) -> dict[str, str]:
    """Return the location of a split: its annotation file, and the folder that its file names start from.

    The folder is left out where none of the images is found.

    Args:
        listing: of the data set.
        path: of the annotation file.
        names: of some of its images, as `file_name` gives them.
        split: of the file, "" for one that has none; its folder comes first among equals.
    """
    places: dict[str, list[str]] = collections.defaultdict(list)
    wanted = {posixpath.basename(name) for name in names}
    for folder, here in listing.folders.items():
        for name in wanted.intersection(here):
            places[name].append(posixpath.join(folder, name))
    hits: collections.Counter[str] = collections.Counter()
    for name in names:
        for place in places[posixpath.basename(name)]:
            if place == name or place.endswith(f"/{name}"):
                hits[place.removesuffix(name).rstrip("/")] += 1
    beside = posixpath.dirname(path)

    def rank(folder: str) -> tuple[int, bool, bool, int]:
        return hits[folder], bool(split) and split_of_path(folder) == split, folder == beside, -len(folder)

    if not hits:
        return {"annotations": path}
    return {"annotations": path, "images": max(sorted(hits), key=rank) or "."}


def _by_split(found: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    by_split: dict[str, list[str]] = collections.defaultdict(list)
    for path in found:
        by_split[split_word(posixpath.basename(path)) or split_of_path(posixpath.dirname(path))].append(path)
    divided = {split: paths for split, paths in by_split.items() if split}
    return divided if len(divided) > 1 else {"": list(found)}


def _only(root: str, paths: Sequence[str]) -> str:
    """Return the file of boxes among those for the same images."""
    usual = [path for path in paths if posixpath.basename(path).startswith(_USUAL)] or list(paths)
    if len(usual) > 1:
        raise DataError(
            f"expected one COCO JSON file for each split, found {', '.join(sorted(usual)[:6])}; name the "
            'file of each split in data.splits: {"train": {"annotations": FILE, "images": FOLDER}}',
            where=root,
        )
    return usual[0]


def _some_names(text: bytes) -> list[str]:
    """Return the first and the last image names in a text, as many as are enough to find their folder."""
    quoted = _FILE_NAME.findall(text)
    some = quoted if len(quoted) <= _SAMPLE else quoted[: _SAMPLE // 2] + quoted[-_SAMPLE // 2 :]
    names = []
    for name in some:
        try:
            names.append(str(json.loads(name)))
        except ValueError:
            continue
    return names
