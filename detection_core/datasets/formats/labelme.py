"""LabelMe: a JSON file an image, with shapes in pixels, https://github.com/wkentaro/labelme."""

from __future__ import annotations

import collections
import os
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    Annotations,
    Rejected,
    Rejection,
    checked_id,
    checked_text,
)
from detection_core.datasets.formats.json_files import list_of, mapping_of, parse_json, size_of
from detection_core.datasets.formats.labelme_shapes import read_objects
from detection_core.datasets.image_files import ImageFiles
from detection_core.datasets.layouts import (
    Layout,
    count_images,
    folder_in,
    name_folder,
    name_splits,
    split_of_path,
    stem,
)
from detection_core.datasets.shapes import Point
from detection_core.datasets.unannotated import images_without_annotation
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing, list_folder

LOOKS_FOR = "LabelMe: a JSON file an image, with shapes and imagePath"

_SAMPLE = 3


def find(listing: FolderListing) -> Layout | None:
    """Find the LabelMe files in a folder."""
    found = {}
    for folder, names in listing.folders.items():
        paths = [posixpath.join(folder, name) for name in names if name.lower().endswith(".json")]
        if any(_is_labelme(listing, path) for path in paths[:: max(1, len(paths) // _SAMPLE)][:_SAMPLE]):
            found[folder] = len(paths)
    if not found:
        return None
    by_split: dict[str, list[str]] = collections.defaultdict(list)
    for folder in found:
        by_split[split_of_path(folder)].append(folder)
    locations = {split: min(folders, key=len) for split, folders in by_split.items() if split}
    count = count_images(listing, [""])
    said = ", ".join(
        f"{number} JSON files in {name_folder(folder)}" for folder, number in list(found.items())[:6]
    )
    return Layout(
        format="labelme",
        path=listing.root,
        splits=name_splits(locations),
        evidence=f"LabelMe: {said}, {count} images",
        images=min(count, sum(found.values())),
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
        DataError: when there is no such folder, or no file in it.
    """
    folder, _ = locate(root, location)
    inside = os.path.relpath(folder, root).replace(os.sep, "/") if folder != root else ""
    below = list_folder(folder)
    paths = [*below.paths(".json"), *below.folders_named(".json")]  # the latter go to quarantine
    names = [posixpath.normpath(posixpath.join(inside, path)) for path in paths]
    parsed, rejected, available = [], [], ImageFiles(root)
    about: set[str] = set()
    for name in names:
        try:
            content = parse_json(files.join(root, name))
            if isinstance(content, Mapping) and not {"shapes", "imagePath"} & set(content):
                continue  # another tool's file, settings say
            parsed.append(_image(name, mapping_of(content, "the file"), available))
        except Rejected as e:
            rejected.append(Rejection(name, stem(name), e.reason, e.detail))
            about |= available.paths_like(stem(name)) | available.paths_like(posixpath.basename(stem(name)))
    if not parsed and not rejected:
        raise DataError("expected LabelMe files, found none; correct data.path or data.format", where=folder)
    keypoint_names = _keypoint_names(parsed)
    images = [_with_keypoints(*image, keypoint_names) for image in parsed]
    about.update(image.path for image in images)
    ids = [image.source_id for image in images]
    return Annotations(
        categories={item.name: 0 for image in images for item in image.objects},
        images=images,
        rejected=rejected,
        keypoint_names=keypoint_names,
        unannotated=images_without_annotation(available, about, ids, f"{inside}/" if inside else ""),
        about=about,
    )


def _image(
    name: str, content: Mapping[str, Any], available: ImageFiles
) -> tuple[AnnotatedImage, list[Mapping[str, Point]]]:
    """Return an image, and the named points that belong to each of its objects."""
    image_path = checked_text(content.get("imagePath"), "imagePath").replace("\\", "/")
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(name), image_path))
    filename = available.find(beside, beside=stem(name))
    width, height = size_of(content.get("imageWidth"), content.get("imageHeight"))
    shapes = list_of(content.get("shapes"), "shapes")
    drawn = read_objects([mapping_of(shape, "a shape") for shape in shapes], width, height)
    objects = [item for item, _ in drawn]
    source_id = checked_id(checked_text(stem(name), "the file's name"))
    image = AnnotatedImage(source_id, filename, available.path(filename), width, height, objects)
    return image, [points for _, points in drawn]


def _keypoint_names(
    parsed: Iterable[tuple[AnnotatedImage, list[Mapping[str, Point]]]],
) -> dict[str, list[str]]:
    names: dict[str, set[str]] = collections.defaultdict(set)
    for image, points in parsed:
        for item, named in zip(image.objects, points, strict=True):
            if named:
                names[item.name].update(named)
    return {name: sorted(points) for name, points in sorted(names.items())}


def _with_keypoints(
    image: AnnotatedImage, points: list[Mapping[str, Point]], names: Mapping[str, list[str]]
) -> AnnotatedImage:
    objects = [
        item._replace(
            keypoints=[(*named[point], 2) if point in named else (0.0, 0.0, 0) for point in names[item.name]]
        )
        if item.name in names
        else item
        for item, named in zip(image.objects, points, strict=True)
    ]
    return image._replace(objects=objects)
