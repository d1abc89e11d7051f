"""LabelMe: a JSON file an image, with shapes in pixels, https://github.com/wkentaro/labelme."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detection_core.bounded.limits import MAX_IMAGE_FILE_BYTES, MAX_VALUES
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    Annotations,
    Rejected,
    Rejection,
    check_count,
    checked_id,
    checked_text,
    read_annotation,
)
from detection_core.datasets.formats.json_files import list_of, mapping_of, parse_json, size_of
from detection_core.datasets.formats.labelme_shapes import read_objects
from detection_core.datasets.image_files import ImageFiles
from detection_core.datasets.layouts import (
    Layout,
    count_images,
    folder_in,
    name_folder,
    name_here,
    name_splits,
    split_of_path,
    spread,
    stem,
)
from detection_core.datasets.shapes import Point
from detection_core.datasets.unannotated import images_without_annotation
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.storage import files
from detection_core.storage.file_parts import FilePart, part_path
from detection_core.storage.folder_listing import FolderListing, list_folder

LOOKS_FOR = "LabelMe: a JSON file an image, with shapes and imagePath"

_SAMPLE = 3
_SAMPLED_NAMES = 100
_POINT = b'"point"'
_Read = tuple[AnnotatedImage, list[Mapping[str, Point]]]


def find(listing: FolderListing) -> Layout | None:
    """Find the LabelMe files in a folder."""
    found = {}
    for folder, names in listing.folders.items():
        paths = [posixpath.join(folder, name) for name in names if name.lower().endswith(".json")]
        if any(_is_labelme(listing, path) for path in spread(paths, _SAMPLE)):
            found[folder] = [stem(path) for path in paths]
    if not found:
        return None
    by_split: dict[str, list[str]] = collections.defaultdict(list)
    for folder in found:
        by_split[split_of_path(folder)].append(folder)
    locations = {split: min(folders, key=len) for split, folders in by_split.items() if split}
    count = count_images(listing, [""])
    said = ", ".join(
        f"{len(paths)} JSON files in {name_folder(folder)}" for folder, paths in list(found.items())[:6]
    )
    return Layout(
        format="labelme",
        path=listing.root,
        splits=name_splits(locations),
        evidence=f"LabelMe: {said}, {count} images",
        images=min(count, sum(map(len, found.values()))),
        names=spread([path for paths in found.values() for path in paths], _SAMPLED_NAMES),
    )


def _is_labelme(listing: FolderListing, path: str) -> bool:
    head, tail = listing.ends(path)
    return b'"shapes"' in head and b'"imagePath"' in head + tail


def locate(root: str, location: Any) -> list[str]:
    """Find the folder of a split.

    Args:
        root: folder of the data set.
        location: a folder below it; None for all that is below `root`.

    Returns:
        The folder, and `root`, as images may lie elsewhere in it.

    Raises:
        ConfigError: when the location is something else.
        DataError: when there is no such folder.
    """
    if not isinstance(location, str | None):
        raise ConfigError(f"expected a folder of LabelMe files, found {shorten(location)}", where="splits")
    folder = folder_in(root, location or "")
    if not files.is_dir(folder):
        raise DataError(
            "expected a folder of LabelMe files, found nothing; correct data.splits", where=folder
        )
    return [folder, root]


def read(root: str, location: Any) -> Annotations:
    """Read the LabelMe files below a folder. The categories are the classes that occur.

    Images without a file were not looked at yet.

    Args:
        root: folder of the data set.
        location: see `locate`.

    Raises:
        DataError: when there is no such folder; while the images are read, when no file is LabelMe's.
    """
    folder, _ = locate(root, location)
    inside = os.path.relpath(folder, root).replace(os.sep, "/") if folder != root else ""
    below = list_folder(folder)
    paths = [*below.paths(".json"), *below.folders_named(".json")]  # the latter go to quarantine
    names = [posixpath.normpath(posixpath.join(inside, path)) for path in paths]
    available = ImageFiles(root)
    found = Annotations(
        categories={}, images=(), rejected=[], keypoint_names=_keypoint_names(root, names, available)
    )
    return dataclasses.replace(found, images=_read_images(found, root, inside, names, available))


def _read_images(
    found: Annotations, root: str, inside: str, names: Sequence[str], available: ImageFiles
) -> Iterator[AnnotatedImage]:
    """Yield the images of annotation files, and fill in what is known when the last one was read.

    Args:
        found: to fill in.
        root: folder of the data set.
        inside: folder of the split in it.
        names: of the files, relative to `root`.
        available: images in `root`.

    Raises:
        DataError: when none of the files is LabelMe's.
    """
    about, ids = found.about, []
    for name in names:
        try:
            image = _read_image(root, name, available)
            record = image and _with_keypoints(*image, found.keypoint_names)
        except Rejected as e:
            found.rejected.append(Rejection(name, stem(name), e.reason, e.detail))
            about |= available.paths_like(stem(name)) | available.paths_like(posixpath.basename(stem(name)))
            continue
        if record is None:
            continue
        found.categories.update((item.name, 0) for item in record.objects)
        about.add(record.path)
        ids.append(record.source_id)
        yield record
    if not ids and not found.rejected:
        where = files.join(root, inside)
        raise DataError("expected LabelMe files, found none; correct data.path or data.format", where=where)
    found.unannotated.extend(images_without_annotation(available, about, ids, f"{inside}/" if inside else ""))


def _read_image(root: str, name: str, available: ImageFiles) -> _Read | None:
    """Return what is in a file; None for another tool's, settings say."""
    content = parse_json(files.join(root, name))
    if isinstance(content, Mapping) and not {"shapes", "imagePath"} & set(content):
        return None
    return _image(root, name, mapping_of(content, "the file"), available)


def _keypoint_names(root: str, names: Sequence[str], available: ImageFiles) -> dict[str, list[str]]:
    """Return class name to the names of its points, which every object of it is to have, from the first on.

    Files without points, most of them, are not parsed for that.
    """
    found: dict[str, set[str]] = collections.defaultdict(set)
    for name in names:
        with contextlib.suppress(Rejected):  # said when it is read
            if _POINT not in read_annotation(files.join(root, name), MAX_IMAGE_FILE_BYTES):
                continue
            if (read := _read_image(root, name, available)) is not None:
                image, points = read
                for item, named in zip(image.objects, points, strict=True):
                    if named:
                        found[item.name].update(named)
    return {name: sorted(points) for name, points in sorted(found.items())}


def _picture(root: str, name: str, image: str, data: object, available: ImageFiles) -> tuple[str, str]:
    """Return path and name of the image that an annotation file is about: a file, or what the file embeds."""
    try:
        filename = available.find(image, beside=stem(name))
        if available.has(filename) or not (isinstance(data, str) and data):
            return available.path(filename), filename
    except Rejected:
        if not (isinstance(data, str) and data):
            raise
    text, where = data.encode("ascii", "replace"), files.join(root, name)
    at = read_annotation(where).find(text)
    if at < 0:
        raise Rejected("unreadable_annotation", "expected imageData as plain base64, found it with escapes")
    filename = posixpath.join(posixpath.dirname(name), posixpath.basename(name_here(image)) or stem(name))
    return part_path(FilePart(at, len(text), where, base64=True)), filename


def _image(root: str, name: str, content: Mapping[str, Any], available: ImageFiles) -> _Read:
    """Return an image, and the named points that belong to each of its objects."""
    image_path = checked_text(content.get("imagePath"), "imagePath").replace("\\", "/")
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(name), image_path))
    path, filename = _picture(root, name, beside, content.get("imageData"), available)
    width, height = size_of(content.get("imageWidth"), content.get("imageHeight"))
    shapes = list_of(content.get("shapes"), "shapes")
    drawn = read_objects([mapping_of(shape, "a shape") for shape in shapes], width, height)
    objects = [item for item, _ in drawn]
    source_id = checked_id(checked_text(stem(name), "the file's name"))
    image = AnnotatedImage(source_id, filename, path, width, height, objects)
    return image, [points for _, points in drawn]


def _with_keypoints(
    image: AnnotatedImage, points: list[Mapping[str, Point]], names: Mapping[str, Sequence[str]]
) -> AnnotatedImage:
    filled = sum(len(names.get(item.name, ())) for item in image.objects)
    check_count(filled, "keypoints of an image", MAX_VALUES)
    objects = [
        item._replace(
            keypoints=[(*named[point], 2) if point in named else (0.0, 0.0, 0) for point in names[item.name]]
        )
        if item.name in names
        else item
        for item, named in zip(image.objects, points, strict=True)
    ]
    return image._replace(objects=objects)
