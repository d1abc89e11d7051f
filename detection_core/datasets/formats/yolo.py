"""YOLO: one text file per image, one line per object, in fractions of the image.

See https://docs.ultralytics.com/datasets/. A box is `class x y width height` with its center, an outline
`class x y x y ...`. Keypoints follow the box if data.yaml has `kpt_shape`.
"""

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Annotations,
    Keypoint,
    Malformed,
    ReadAll,
    Rejected,
    check_count,
    checked_id,
    checked_text,
    path_inside,
    read_annotation,
    read_here,
    rejecting,
)
from detection_core.datasets.formats.yolo_layout import (
    LOOKS_FOR,
    YoloSet,
    find,
    find_file,
    images_of,
    labels_of,
    place_of,
    read_set,
)
from detection_core.datasets.layouts import list_data_set
from detection_core.datasets.shapes import polygon_object
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing

__all__ = ["LOOKS_FOR", "find", "locate", "read"]

_FORMS = ({"data", "split"}, {"names", "images"})


def locate(root: str, location: Any) -> list[str]:
    """Find the files and folders of a split.

    `location` is `{"data": "data.yaml", "split": "train"}`, a key of that file. Or it is
    `{"names": "classes.txt", "images": FOLDER}`. None means every image below `root`.

    Returns:
        The file of classes, the image folders and lists, and the folders of label files. `root` if nothing
        lists the images.

    Raises:
        ConfigError: if the location has another form.
        DataError: if a file or folder is missing.
    """
    listing, found, where = _open(root, location)
    if "split" not in where:
        return [listing.path(found.file), root]
    labels = labels_of(listing, images_of(listing, found, where))
    places = [place_of(listing, found, text) for text in found.splits[where["split"]]]
    folders = {*places, *(label.rpartition("/")[0] for label in labels.values())}
    return [listing.path(found.file), *(listing.path(folder) for folder in sorted(folders))]


def read(root: str, location: Any, read_all: ReadAll = read_here) -> Annotations:
    """Read a split's label files; images may lack one; DataError without classes, images or label files."""
    listing, found, where = _open(root, location)
    paths = images_of(listing, found, where)
    labels = labels_of(listing, paths)
    if paths and not labels:
        raise DataError(
            f"expected label files, found none for {len(paths)} images; they lie in a folder labels beside "
            "images, or with the images",
            where=root,
        )

    def read_some(images: Sequence[str]) -> Annotations:
        annotations = Annotations(
            categories={name: number + 1 for number, name in found.names.items()},
            keypoint_names=_keypoint_names(found),
        )
        read_images = _read_images(listing, found, images, labels, annotations)
        return dataclasses.replace(annotations, images=read_images)

    about = {listing.path(image) for image in labels}
    return dataclasses.replace(read_all(read_some, paths), about=about)


def _open(root: str, location: Any) -> tuple[FolderListing, YoloSet, Mapping[str, str]]:
    listing = list_data_set(root)
    if location is None:
        file = find_file(listing)
        if not file:
            raise DataError("expected a data.yaml, obj.data or classes.txt, found none", where=root)
        location = {"names": file, "images": "."}
    if not isinstance(location, Mapping) or set(location) not in _FORMS:
        raise ConfigError(
            f'expected {{"data": "data.yaml", "split": "train"}}, found {shorten(location)}', where="splits"
        )
    file = os.path.normpath(str(location.get("data") or location["names"]))
    if file not in listing.known or file in listing.folders:
        raise DataError("expected the file of the classes, found nothing", where=files.join(root, file))
    where = {key: os.path.normpath(str(value)) for key, value in location.items()}
    if where.get("images", ".") not in (".", *listing.folders):
        raise DataError("expected the image folder, found nothing", where=files.join(root, where["images"]))
    return listing, read_set(listing, file), where


def _read_images(
    listing: FolderListing,
    found: YoloSet,
    paths: Sequence[str],
    labels: Mapping[str, str],
    annotations: Annotations,
) -> Iterator[AnnotatedImage]:
    """Yield the images with a label file; the others are background, kept separately."""
    for image in paths:
        with rejecting(annotations.rejected, labels.get(image, image), image):
            path = path_inside(listing.root, checked_text(image, "the image's name"))
            lines = _lines(listing.path(labels[image])) if image in labels else ()
            objects = [_object(line, number, found) for number, line in lines]
            entry = AnnotatedImage(checked_id(image), image, path, 0, 0, objects, in_fractions=True)
            if image in labels:
                yield entry
            else:
                annotations.unannotated.append(entry)


def _lines(path: str) -> Iterator[tuple[int, list[str]]]:
    try:
        text = read_annotation(path, files.MAX_TEXT_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise Rejected("unreadable_annotation", f"the label file cannot be read: {e}") from e
    lines = text.splitlines()
    check_count(sum(map(bool, lines)))
    return ((number, line.split()) for number, line in enumerate(lines, start=1) if line.strip())


def _object(words: Sequence[str], number: int, found: YoloSet) -> AnnotatedObject:
    label = f"line {number}"
    try:
        index, values = float(words[0]), [float(word) for word in words[1:]]
    except ValueError as e:
        raise Malformed(f"{label}: expected numbers, found {words!r:.120}") from e
    if not all(math.isfinite(value) for value in (index, *values)):
        raise Rejected("box_not_finite", f"{label}: expected finite numbers, found {words!r:.120}")
    if int(index) != index or int(index) not in found.names:
        raise Rejected("unknown_category", f"{label}: the class {words[0]!r:.40} has no name")
    name, (count, dims) = found.names[int(index)], found.keypoints
    if len(values) in (4, 4 + count * dims):
        if any(value > 1.01 for value in values[:4]):
            raise Rejected("box_outside", f"{label}: expected fractions of the image, found {words!r:.120}")
        x, y, w, h = values[:4]
        box = (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
        return AnnotatedObject(name, box, label=label, keypoints=_keypoints(values[4:], dims))
    if len(values) >= 6 and not len(values) % 2 and not count:
        return polygon_object(name, list(zip(values[::2], values[1::2], strict=True)), label)
    expected = f"4 numbers or {4 + count * dims}" if count else "4 numbers, or those of an outline"
    raise Malformed(f"{label}: expected a class and {expected}, found {len(words)}")


def _keypoints(values: Sequence[float], dims: int) -> list[Keypoint] | None:
    """Return the keypoints; without visibility, one in the upper left corner is not labelled."""
    if not values:
        return None
    points = zip(
        values[::dims], values[1::dims], values[2::dims] if dims == 3 else values[::dims], strict=True
    )
    return [(x, y, min(max(int(seen), 0), 2) if dims == 3 else 2 * bool(x or y)) for x, y, seen in points]


def _keypoint_names(found: YoloSet) -> dict[str, list[str]]:
    count = found.keypoints[0]
    numbered = [f"keypoint_{number}" for number in range(count)]
    given = found.keypoint_names
    return {
        name: list(given[index]) if len(given.get(index, ())) == count else numbered
        for index, name in found.names.items()
        if count
    }
