"""Pascal VOC folders: Annotations/*.xml, JPEGImages/*, ImageSets/Main/*.txt, or folders with other names."""

import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from detection_core.datasets import layouts
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Annotations,
    Malformed,
    ReadAll,
    Rejected,
    checked_id,
    checked_text,
    path_inside,
    read_here,
)
from detection_core.datasets.formats.annotation_files import SAMPLED_NAMES, annotated_folders, say_folders
from detection_core.datasets.formats.xml_files import parse_xml
from detection_core.datasets.image_files import ImageFiles, read_each, with_unannotated
from detection_core.datasets.image_parts import plain_line, read_list
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing, list_folder

LOOKS_FOR = "Pascal VOC: an XML file an image, with <annotation> and <object>, as LabelImg writes them"

_ANNOTATIONS, _IMAGES, _SETS = "Annotations", "JPEGImages", "ImageSets/Main"
_SETS_OF_SPLITS = {"train": layouts.TRAIN, "val": layouts.EVAL, "test": layouts.TEST}
_HEAD = 4096


def find(listing: FolderListing) -> layouts.Layout | None:
    """Find the largest Pascal VOC data set in a folder."""
    xml = annotated_folders(listing, ".xml", _is_annotation)
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
    """Return the location of all Pascal VOC annotations below a folder; DataError if there are none."""
    listing = layouts.list_data_set(root)
    xml = annotated_folders(listing, ".xml", _is_annotation)
    if not xml:
        raise DataError(f"expected {LOOKS_FOR}, found none; correct data.path or data.format", where=root)
    return _location(listing, xml)


def _is_annotation(listing: FolderListing, path: str) -> bool:
    head, _ = listing.ends(path, _HEAD)
    return b"<annotation>" in head or b"<annotation " in head


def _find_standard(
    listing: FolderListing, base: str, xml: Mapping[str, Sequence[str]], others: int
) -> layouts.Layout:
    """Describe a folder with the challenge's layout."""
    annotations, images = (posixpath.join(base, name) for name in (_ANNOTATIONS, _IMAGES))
    sets = listing.folders.get(posixpath.join(base, _SETS), ())
    locations = {
        split: f"{_SETS}/{word}.txt" for word, split in _SETS_OF_SPLITS.items() if f"{word}.txt" in sets
    }
    count = sum(map(layouts.is_image, listing.folders[images]))
    more = f"; {others} more sets beside it" if others else ""
    divided = f", image sets {', '.join(locations)}" if locations else ""
    found = f"{len(xml[annotations])} XML files in {annotations}/, {count} images in {images}/"
    return layouts.Layout(
        format="voc",
        path=listing.path(base),
        splits=layouts.name_splits(locations),
        evidence=f"{found}{divided}{more}",
        images=count,
    )


def _find_elsewhere(listing: FolderListing, xml: Mapping[str, Sequence[str]]) -> layouts.Layout:
    """Describe annotations in folders with other names, or next to the images."""
    locations = {
        split: _location(listing, {folder: xml[folder] for folder in folders}, split)
        for split, folders in layouts.group_by_split(xml).items()
        if split
    }
    splits = layouts.name_splits(locations)
    parts = list(locations.values()) if splits.get(layouts.TRAIN) in locations.values() else []
    parts = parts or [_location(listing, xml)]
    folders = list(dict.fromkeys(part["images"] for part in parts))
    count = layouts.count_images(listing, folders)
    where = " and ".join(map(layouts.name_folder, folders))
    return layouts.Layout(
        format="voc",
        path=listing.root,
        splits=splits,
        evidence=f"{say_folders(xml, 'XML')}, {count} images in {where}",
        images=count,
        names=layouts.spread([name for names in xml.values() for name in names], SAMPLED_NAMES),
    )


def _location(listing: FolderListing, xml: Mapping[str, Sequence[str]], split: str = "") -> dict[str, str]:
    """Return the annotation folder and the image folder of a split."""
    images = {_image_folder(listing, folder, names, split) for folder, names in xml.items()}
    return {"annotations": posixpath.commonpath(xml) or ".", "images": posixpath.commonpath(images) or "."}


def _image_folder(listing: FolderListing, folder: str, names: Iterable[str], split: str) -> str:
    """Return the folder with most of the annotations' images, or a parent folder that holds all.

    Ties go to the split's folder, then to the longest common end of the path, then to the nearest folder.
    """
    wanted = set(names)
    named = {
        other: wanted & {layouts.stem(name) for name in here if layouts.is_image(name)}
        for other, here in listing.folders.items()
    }

    def rank(other: str) -> tuple[int, bool, int, int]:
        of_split = bool(split) and layouts.split_of_path(other) == split
        ends = posixpath.commonprefix([folder.split("/")[::-1], other.split("/")[::-1]])
        shared = posixpath.commonpath([other, folder])
        nearness = 2 * len(shared.split("/")) - len(other.split("/"))
        return len(named[other]), of_split, len(ends), nearness

    images = {other for other, here in listing.folders.items() if any(map(layouts.is_image, here))}
    # Ties go to the annotations' folder.
    best = max(sorted(images, key=lambda other: other != folder), key=rank, default=folder)
    missing = wanted - named.get(best, set())
    return posixpath.commonpath([best, *(other for other, here in named.items() if here & missing)])


_FLAG_VALUES = {"": 0, "unspecified": 0, "0": 0, "1": 1}


def locate(root: str, location: Any) -> tuple[str, str, str]:
    """Find the image set file, the annotation folder and the image folder of a split.

    `location` is `{"annotations": FOLDER, "images": FOLDER}`, relative to `root`. Or it is an image set file,
    for folders named `Annotations` and `JPEGImages`. None means all annotation files.

    Returns:
        The three paths; the first is "" without an image set.

    Raises:
        ConfigError: if the location has another form.
        DataError: if one of them is missing.
    """
    if location is None and not files.is_dir(files.join(root, _ANNOTATIONS)):
        location = find_folders(root)
    if isinstance(location, Mapping) and set(location) == {"annotations", "images"}:
        names = str(location["annotations"]), str(location["images"])
        location = None
    else:
        names = _ANNOTATIONS, _IMAGES
    if not isinstance(location, str | None):
        raise ConfigError(
            'expected {"annotations": FOLDER, "images": FOLDER} or "ImageSets/Main/NAME.txt", '
            f"found {shorten(location)}",
            where="splits",
        )
    annotations, images = (layouts.folder_in(root, name) for name in names)
    for folder in (annotations, images):
        if not files.is_dir(folder):
            raise DataError("expected a folder of a Pascal VOC data set, found nothing", where=folder)
    image_set = files.join(root, location) if location else ""
    if image_set and not files.exists(image_set):
        raise DataError("expected an image set file, found nothing; correct data.splits", where=image_set)
    return image_set, annotations, images


def read(root: str, location: Any, read_all: ReadAll = read_here) -> Annotations:
    """Read the annotation files of an image set, or all below the annotation folder.

    The categories are the classes that occur; the format does not list them. Without an image set, images
    without an annotation file count as not annotated yet: tools write a file for images without objects.

    Raises:
        DataError: if folders or the image set are missing.
    """
    image_set, annotations, folder = locate(root, location)
    if image_set:
        listed = [f"{plain_line(line)}.xml" for line in read_list(image_set)]
    else:  # also unreadable folders with an annotation's name
        listing = list_folder(annotations)
        listed = sorted([*listing.paths(".xml"), *listing.folders_named(".xml")], key=layouts.stem)
    shown, available = os.path.relpath(annotations, root), ImageFiles(folder)

    def read_one(path: str) -> AnnotatedImage:
        return _image(layouts.stem(path), path_inside(annotations, path), available)

    def read_some(paths: Sequence[str]) -> Annotations:
        return read_each(Annotations(), paths, read_one, available, shown)

    found = read_all(read_some, listed)
    return found if image_set else with_unannotated(found, available)


def _image(name: str, path: str, available: ImageFiles) -> AnnotatedImage:
    tree = parse_xml(path)
    filename = checked_text((tree.findtext("filename") or "").strip() or name, "filename")
    filename = available.find(filename, beside=name)
    if not os.path.splitext(filename)[1]:
        filename += ".jpg"
    try:
        width, height = (round(float(tree.findtext(f"size/{side}") or 0)) for side in ("width", "height"))
    except (ValueError, OverflowError) as e:
        raise Rejected("malformed_record", f"expected size/width and size/height in pixels: {e}") from e
    objects = [_object(element, number) for number, element in enumerate(tree.findall("object"), start=1)]
    return AnnotatedImage(checked_id(name), filename, available.path(filename), width, height, objects)


def _object(element: ElementTree.Element, number: int) -> AnnotatedObject:
    label = f"object {number}"
    name = (element.findtext("name") or "").strip()
    try:
        checked_text(name, "name")
        xmin, ymin, xmax, ymax = (
            float(element.findtext(f"bndbox/{side}") or "nothing")
            for side in ("xmin", "ymin", "xmax", "ymax")
        )
        difficult, truncated = (
            _FLAG_VALUES[(element.findtext(flag) or "").strip().lower()]
            for flag in ("difficult", "truncated")
        )
    except (Rejected, ValueError, KeyError) as e:
        raise Malformed(
            f"{label}: expected name, bndbox of 4 numbers, difficult and truncated 0 or 1: {e}"
        ) from e
    pose = (element.findtext("pose") or "Unspecified").strip()
    # Other tools add this element, with any content.
    occluded = {"0": 0, "1": 1}.get((element.findtext("occluded") or "").strip())
    box = (xmin, ymin, xmax, ymax)
    return AnnotatedObject(name, box, 0.0, 0, difficult, truncated, pose, label, occluded=occluded)
