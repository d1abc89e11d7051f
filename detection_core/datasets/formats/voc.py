"""Pascal VOC folders: Annotations/*.xml, JPEGImages/*, ImageSets/Main/*.txt, or folders of other names."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Annotations,
    Rejected,
    Rejection,
    checked_id,
    checked_text,
    path_inside,
)
from detection_core.datasets.formats.voc_layout import find_folders
from detection_core.datasets.formats.xml_files import parse_xml
from detection_core.datasets.image_files import ImageFiles
from detection_core.datasets.image_parts import plain_line, read_list
from detection_core.datasets.layouts import folder_in, stem
from detection_core.datasets.unannotated import images_without_annotation
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.storage import files
from detection_core.storage.folder_listing import list_folder

_ANNOTATIONS, _IMAGES = "Annotations", "JPEGImages"
_UNSAID = {"": 0, "unspecified": 0, "0": 0, "1": 1}


def locate(root: str, location: Any) -> tuple[str, str, str]:
    """Find the image set file, the annotation folder and the image folder of a split.

    Args:
        root: folder of the data set.
        location: `{"annotations": FOLDER, "images": FOLDER}`, relative to `root`; or an image set file, for
            folders named `Annotations` and `JPEGImages`; None for every annotation file there is.

    Returns:
        The three paths; the first is "" where there is no image set.

    Raises:
        ConfigError: when the location is something else.
        DataError: when one of them is not there.
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
    annotations, images = (folder_in(root, name) for name in names)
    for folder in (annotations, images):
        if not files.is_dir(folder):
            raise DataError("expected a folder of a Pascal VOC data set, found nothing", where=folder)
    image_set = files.join(root, location) if location else ""
    if image_set and not files.exists(image_set):
        raise DataError("expected an image set file, found nothing; correct data.splits", where=image_set)
    return image_set, annotations, images


def read(root: str, location: Any) -> Annotations:
    """Read the annotation files of an image set, or all below the annotation folder.

    The categories are the classes that occur; the format has no list of them. Where there is no image set,
    images without an annotation file were not looked at yet: tools write one for an image without objects.

    Args:
        root: folder of the data set.
        location: see `locate`.

    Raises:
        DataError: when folders or the image set are not there.
    """
    image_set, annotations, folder = locate(root, location)
    listed = (
        [f"{plain_line(line)}.xml" for line in read_list(image_set)] if image_set else _all_files(annotations)
    )
    shown = os.path.relpath(annotations, root)
    found = Annotations(categories={}, images=(), rejected=[])
    images = _read_images(found, annotations, listed, ImageFiles(folder), shown, whole=not image_set)
    return dataclasses.replace(found, images=images)


def _read_images(
    found: Annotations,
    annotations: str,
    listed: Iterable[str],
    available: ImageFiles,
    shown: str,
    *,
    whole: bool,
) -> Iterator[AnnotatedImage]:
    """Yield the images of annotation files, and fill in what is known when the last one was read."""
    about, ids = found.about, []
    for path in listed:
        name = stem(path)
        try:
            image = _image(name, path_inside(annotations, path), available)
        except Rejected as e:
            file = os.path.normpath(os.path.join(shown, path))
            found.rejected.append(Rejection(file, name, e.reason, e.detail))
            about |= available.paths_like(name) | available.paths_like(os.path.basename(name))
            continue
        found.categories.update((item.name, 0) for item in image.objects)
        about.add(image.path)
        ids.append(image.source_id)
        yield image
    if whole:
        found.unannotated.extend(images_without_annotation(available, about, ids))


def _all_files(folder: str) -> list[str]:
    """Return the annotation files below a folder, and folders of such a name, which cannot be read."""
    listing = list_folder(folder)
    return sorted([*listing.paths(".xml"), *listing.folders_named(".xml")], key=stem)


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
            _UNSAID[(element.findtext(flag) or "").strip().lower()] for flag in ("difficult", "truncated")
        )
    except (Rejected, ValueError, KeyError) as e:
        raise Rejected(
            "malformed_annotation",
            f"{label}: expected name, bndbox of 4 numbers, difficult and truncated 0 or 1: {e}",
        ) from e
    pose = (element.findtext("pose") or "Unspecified").strip()
    # An addition of other tools, which may hold anything.
    occluded = {"0": 0, "1": 1}.get((element.findtext("occluded") or "").strip())
    box = (xmin, ymin, xmax, ymax)
    return AnnotatedObject(name, box, 0.0, 0, difficult, truncated, pose, label, occluded=occluded)
