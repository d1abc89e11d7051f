"""Finds YOLO data: its data.yaml or list of classes, and the images of each split."""

from __future__ import annotations

import collections
import posixpath
from collections.abc import Iterable, Mapping

from detection_core.bounded.text_file import read_lines
from detection_core.datasets.formats.yolo_names import LISTS, YoloSet, read_set
from detection_core.datasets.layouts import (
    RATIOS,
    Layout,
    is_image,
    name_splits,
    split_of_path,
    stem,
)
from detection_core.errors import DataError, shorten
from detection_core.storage.folder_listing import FolderListing

LOOKS_FOR = "YOLO: a data.yaml (or obj.data, classes.txt) with class names, and a .txt of boxes an image"

_SPLITS = {"train": "train", "val": "eval", "test": "test"}
_LINE_BYTES = 4096
_SAMPLE = 5
_MOST_FOLDERS = 100


def find(listing: FolderListing) -> Layout | None:
    """Find the YOLO data set in a folder.

    Args:
        listing: of the folder.

    Raises:
        DataError: when its own file cannot be used, or label files lie there without a list of classes.
    """
    file = find_file(listing)
    if not file:
        return None
    found = read_set(listing, file)
    locations = _locations(listing, found)
    splits = name_splits(locations)
    used = locations.values() if splits != RATIOS else [{"names": file, "images": "."}]
    images = [path for where in used for path in images_of(listing, found, where)]
    labels = labels_of(listing, images)
    if not labels:
        return None
    divided = f", divided into {', '.join(splits)}" if splits != RATIOS else ""
    counted = f"{len(images)} images, {len(labels)} label files"
    return Layout(
        format="yolo",
        path=listing.root,
        splits=splits,
        evidence=f"{file} with {len(found.names)} classes, {counted}{divided}",
        images=len(images),
    )


def find_file(listing: FolderListing) -> str:
    """Return the file that tells the classes, "" where there is none.

    Raises:
        DataError: when label files lie there without one.
    """
    kinds = (
        [path for path in listing.paths(".yaml", ".yml") if _has(listing, path, b"names", b"train")],
        [path for path in listing.paths(".data") if _has(listing, path, b"names", b"train")],
        [path for path in listing.paths() if posixpath.basename(path) in LISTS],
    )
    file = next((path for kind in kinds for path in sorted(kind, key=lambda path: path.count("/"))), "")
    if not file and _has_labels(listing):
        raise DataError(
            "expected the class names of the YOLO label files, found none; write them to classes.txt, one a "
            "line in the order of their indices",
            where=listing.root,
        )
    return file


def images_of(listing: FolderListing, found: YoloSet, location: Mapping[str, str]) -> list[str]:
    """Return the paths of a split's images, in the order of the listing, without doubles.

    Args:
        listing: of the data set.
        found: what its own file says.
        location: see `yolo.locate`.

    Raises:
        DataError: when the split's folders or lists are not there.
    """
    if "split" not in location:
        return [path for path in listing.paths() if is_image(path) and _is_below(path, location["images"])]
    if location["split"] not in found.splits:
        raise DataError(
            f"expected the split {location['split']!r}, found {', '.join(found.splits) or 'none'}",
            where=listing.path(found.file),
        )
    paths: dict[str, None] = {}
    places = [place_of(listing, found, text) for text in found.splits[location["split"]]]
    for place in dict.fromkeys(places):
        paths |= dict.fromkeys(_images_at(listing, place))
    return list(paths)


def place_of(listing: FolderListing, found: YoloSet, text: str) -> str:
    """Return the folder or file of a listing that a path in data.yaml means.

    Such paths are relative to `path`, to the file, or to a folder that was there when the file was written,
    or begin on another machine. None leads out of the listing.

    Raises:
        DataError: when there is nothing that is meant.
    """
    here = posixpath.dirname(found.file)
    bases = [posixpath.join(here, found.base), here, ""]
    climbing = text.removeprefix("../")
    guesses = [posixpath.join(base, name) for base in bases for name in (text, climbing)]
    tails = _tails(text.replace("\\", "/").strip("/"))
    guesses += [posixpath.join(base, tail) for tail in tails[1:] for base in (here, "")]
    for guess in guesses:
        path = posixpath.normpath(guess)
        path = "" if path == "." else path
        if path in listing.known:
            return path
    raise DataError(
        f"expected {shorten(text)} below {listing.root}, found nothing; correct it",
        where=listing.path(found.file),
    )


def _tails(path: str) -> list[str]:
    """Return a path, and what is left of it without its first folders; not of one deeper than any is."""
    parts = path.split("/", _MOST_FOLDERS)
    return ["/".join(parts[at:]) for at in range(len(parts))] if len(parts) <= _MOST_FOLDERS else [path]


def _images_at(listing: FolderListing, place: str) -> Iterable[str]:
    if place in listing.folders:
        return [path for path in listing.paths() if is_image(path) and _is_below(path, place)]
    if is_image(place):
        return [place]
    return _listed(listing, place)


def _listed(listing: FolderListing, file: str) -> list[str]:
    """Return the images that a text file names; those that are not there by the names that it gives them."""
    lines = [line.strip() for line in read_lines(listing.path(file), what="list of images")]
    here, known = posixpath.dirname(file), {path for path in listing.paths() if is_image(path)}
    return [_known(line.replace("\\", "/"), here, known) for line in lines if line]


def _known(line: str, here: str, known: set[str]) -> str:
    guesses = [posixpath.join(base, tail) for tail in _tails(line.strip("/")) for base in (here, "")]
    found = (path for path in map(posixpath.normpath, guesses) if path in known)
    return next(found, line)


def labels_of(listing: FolderListing, images: Iterable[str]) -> dict[str, str]:
    """Return image to label file, for images that have one.

    It has the image's name, and lies in the folder `labels` that stands beside `images`, or with the image.
    """
    known = {*listing.paths(".txt"), *listing.folders_named(".txt")}  # a folder cannot be read: quarantine
    found = {}
    for image in images:
        folders = image.split("/")
        guesses = [f"{stem(image)}.txt"]
        for word in ("JPEGImages", "images"):
            if word in folders[:-1]:
                at = len(folders) - 2 - folders[-2::-1].index(word)
                guesses.insert(0, f"{stem('/'.join([*folders[:at], 'labels', *folders[at + 1 :]]))}.txt")
        label = next((path for path in guesses if path in known), "")
        if label:
            found[image] = label
    return found


def _locations(listing: FolderListing, found: YoloSet) -> dict[str, dict[str, str]]:
    if found.splits:
        places: dict[str, list[str]] = {}
        for key in [key for key in _SPLITS if key in found.splits]:
            try:
                places[key] = [place_of(listing, found, text) for text in found.splits[key]]
            except DataError:
                if key != "test":  # which data.yaml often names and the download lacks
                    raise
        if places.get("val") == places.get("train"):
            places.pop("val", None)
        return {_SPLITS[key]: {"data": found.file, "split": key} for key in places}
    by_split: dict[str, set[str]] = collections.defaultdict(set)
    for path in listing.paths():
        if is_image(path):
            by_split[split_of_path(posixpath.dirname(path))].add(posixpath.dirname(path))
    folders = {split: sorted(paths, key=len) for split, paths in by_split.items() if split}
    return {split: {"names": found.file, "images": paths[0]} for split, paths in folders.items()}


def _is_below(path: str, folder: str) -> bool:
    return folder in ("", ".") or path.startswith(f"{folder}/")


def _has(listing: FolderListing, path: str, *words: bytes) -> bool:
    head, _ = listing.ends(path, 1 << 20)
    return all(word in head for word in words)


def _has_labels(listing: FolderListing) -> bool:
    """Tell whether images have text files of their name that hold rows of numbers."""
    images = [path for path in listing.paths() if is_image(path)]
    for label in list(labels_of(listing, images[:1000]).values())[:_SAMPLE]:
        head, _ = listing.ends(label, _LINE_BYTES)
        words = head.splitlines()[0].split() if head.strip() else []
        if len(words) >= 5 and all(word.replace(b".", b"").replace(b"e-", b"").isdigit() for word in words):
            return True
    return False
