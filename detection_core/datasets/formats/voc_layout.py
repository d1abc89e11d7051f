"""Finds Pascal VOC data in folders of any name."""

from __future__ import annotations

import collections
import itertools
import posixpath
from collections.abc import Iterable, Mapping, Sequence

from detection_core.datasets.layouts import (
    EVAL,
    TEST,
    TRAIN,
    Layout,
    common_folder,
    count_images,
    is_image,
    list_data_set,
    name_folder,
    name_splits,
    split_of_path,
    spread,
    stem,
)
from detection_core.errors import DataError
from detection_core.storage.folder_listing import FolderListing

LOOKS_FOR = "Pascal VOC: an XML file an image, with <annotation> and <object>, as LabelImg writes them"

_ANNOTATIONS, _IMAGES, _SETS = "Annotations", "JPEGImages", "ImageSets/Main"
_SETS_OF_SPLITS = {"train": TRAIN, "val": EVAL, "test": TEST}
_SAMPLE = 3
_SAMPLED_NAMES = 100
_HEAD = 4096


def find(listing: FolderListing) -> Layout | None:
    """Find the largest Pascal VOC data set in a folder.

    Args:
        listing: of the folder.
    """
    xml = _annotation_folders(listing)
    if not xml:
        return None
    sets = [folder for folder in xml if posixpath.basename(folder) == _ANNOTATIONS]
    sets = [
        folder for folder in sets if posixpath.join(posixpath.dirname(folder), _IMAGES) in listing.folders
    ]
    if not sets:
        return _find_elsewhere(listing, xml)
    largest = max(sets, key=lambda folder: len(xml[folder]))
    return _find_standard(listing, posixpath.dirname(largest), xml, others=len(sets) - 1)


def find_folders(root: str) -> dict[str, str]:
    """Return the location of all Pascal VOC annotations below a folder, whatever splits it is divided in.

    Raises:
        DataError: when there are none.
    """
    listing = list_data_set(root)
    xml = _annotation_folders(listing)
    if not xml:
        raise DataError(f"expected {LOOKS_FOR}, found none; correct data.path or data.format", where=root)
    return _location(listing, xml)


def _annotation_folders(listing: FolderListing) -> dict[str, list[str]]:
    """Return the folders with annotation files, with the names of these without suffix."""
    found = {}
    for folder, names in listing.folders.items():
        xml = [name for name in names if name.lower().endswith(".xml")]
        if any(_is_annotation(listing, posixpath.join(folder, name)) for name in spread(xml, _SAMPLE)):
            found[folder] = [stem(name) for name in xml]
    return found


def _is_annotation(listing: FolderListing, path: str) -> bool:
    head, _ = listing.ends(path, _HEAD)
    return b"<annotation>" in head or b"<annotation " in head


def _find_standard(
    listing: FolderListing, base: str, xml: Mapping[str, Sequence[str]], others: int
) -> Layout:
    """Describe a folder of the layout that the challenge had."""
    annotations, images = (posixpath.join(base, name) for name in (_ANNOTATIONS, _IMAGES))
    sets = listing.folders.get(posixpath.join(base, _SETS), ())
    locations = {
        split: f"{_SETS}/{word}.txt" for word, split in _SETS_OF_SPLITS.items() if f"{word}.txt" in sets
    }
    count = sum(map(is_image, listing.folders[images]))
    more = f"; {others} more such sets beside it" if others else ""
    divided = f", image sets {', '.join(locations)}" if locations else ""
    found = f"{len(xml[annotations])} XML files in {annotations}/, {count} images in {images}/"
    return Layout(
        format="voc",
        path=listing.path(base),
        splits=name_splits(locations),
        evidence=f"{found}{divided}{more}",
        images=count,
    )


def _find_elsewhere(listing: FolderListing, xml: Mapping[str, Sequence[str]]) -> Layout:
    """Describe annotations in folders of other names, or beside the images."""
    by_split: dict[str, dict[str, Sequence[str]]] = collections.defaultdict(dict)
    for folder, names in xml.items():
        by_split[split_of_path(folder)][folder] = names
    locations = {split: _location(listing, part, split) for split, part in by_split.items() if split}
    splits = name_splits(locations)
    parts = list(locations.values()) if TRAIN in splits and splits[TRAIN] in locations.values() else []
    parts = parts or [_location(listing, xml)]
    folders = list(dict.fromkeys(part["images"] for part in parts))
    count = count_images(listing, folders)
    found = ", ".join(
        f"{len(names)} XML files in {name_folder(folder)}" for folder, names in list(xml.items())[:6]
    )
    where = " and ".join(map(name_folder, folders))
    return Layout(
        format="voc",
        path=listing.root,
        splits=splits,
        evidence=f"{found}, {count} images in {where}",
        images=count,
        names=spread([name for names in xml.values() for name in names], _SAMPLED_NAMES),
    )


def _location(listing: FolderListing, xml: Mapping[str, Sequence[str]], split: str = "") -> dict[str, str]:
    """Return the annotation folder and the image folder of a split."""
    images = {_image_folder(listing, folder, names, split) for folder, names in xml.items()}
    return {"annotations": common_folder(xml) or ".", "images": common_folder(images) or "."}


def _image_folder(listing: FolderListing, folder: str, names: Iterable[str], split: str) -> str:
    """Return the folder with the most images of the annotations' names, or one above it that holds all.

    Of equals it is that of the split, then one with the same folder names at its end, then the nearest.
    """
    wanted = set(names)
    named = {
        other: wanted & {stem(name) for name in here if is_image(name)}
        for other, here in listing.folders.items()
    }

    def rank(other: str) -> tuple[int, bool, int, int]:
        ends = itertools.takewhile(
            lambda pair: pair[0] == pair[1],
            zip(folder.split("/")[::-1], other.split("/")[::-1], strict=False),
        )
        away = (
            len(other.split("/"))
            + len(folder.split("/"))
            - 2 * len(common_folder([other, folder]).split("/"))
        )
        return len(named[other]), bool(split) and split_of_path(other) == split, len(list(ends)), -away

    images = {other for other, here in listing.folders.items() if any(map(is_image, here))}
    # The annotations' own folder comes first among equals.
    best = max(sorted(images, key=lambda other: other != folder), key=rank, default=folder)
    missing = wanted - named.get(best, set())
    return common_folder([best, *(other for other, here in named.items() if here & missing)])
