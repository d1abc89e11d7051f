"""LabelMe: one JSON file per image, with shapes in pixels, https://github.com/wkentaro/labelme."""

import base64
import collections
import contextlib
import dataclasses
import io
import math
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from detection_core.bounded.limits import MAX_IMAGE_FILE_BYTES
from detection_core.data.image_header import ImageFault
from detection_core.datasets import layouts, shapes
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Annotations,
    Malformed,
    Rejected,
    check_count,
    checked_id,
    checked_text,
    read_annotation,
)
from detection_core.datasets.formats.annotation_files import SAMPLED_NAMES, annotated_folders, say_folders
from detection_core.datasets.formats.json_files import list_of, mapping_of, parse_json, point_of, size_of
from detection_core.datasets.image_files import ImageFiles, read_each, with_unannotated
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.storage import files
from detection_core.storage.file_parts import FilePart, part_path
from detection_core.storage.folder_listing import FolderListing, list_folder

LOOKS_FOR = "LabelMe: a JSON file an image, with shapes and imagePath"

_POINT = b'"point"'
Points = Mapping[str, shapes.Point]
_Read = tuple[AnnotatedImage, list[Points]]


def find(listing: FolderListing) -> layouts.Layout | None:
    """Find the LabelMe files in a folder."""
    found = annotated_folders(listing, ".json", _is_labelme)
    if not found:
        return None
    by_split = layouts.group_by_split(found)
    locations = {split: min(folders, key=len) for split, folders in by_split.items() if split}
    count = layouts.count_images(listing, [""])
    return layouts.Layout(
        format="labelme",
        path=listing.root,
        splits=layouts.name_splits(locations),
        evidence=f"LabelMe: {say_folders(found, 'JSON')}, {count} images",
        images=min(count, sum(map(len, found.values()))),
        names=layouts.spread(
            [posixpath.join(at, name) for at, names in found.items() for name in names], SAMPLED_NAMES
        ),
    )


def _is_labelme(listing: FolderListing, path: str) -> bool:
    head, tail = listing.ends(path)
    return b'"shapes"' in head and b'"imagePath"' in head + tail


def locate(root: str, location: Any) -> list[str]:
    """Find the folder of a split, None: `root`; return it and `root`, where images may lie elsewhere.

    Raises:
        ConfigError: if the location has another form.
        DataError: if the folder does not exist.
    """
    if not isinstance(location, str | None):
        raise ConfigError(f"expected a folder of LabelMe files, found {shorten(location)}", where="splits")
    folder = layouts.folder_in(root, location or "")
    if not files.is_dir(folder):
        raise DataError(
            "expected a folder of LabelMe files, found nothing; correct data.splits", where=folder
        )
    return [folder, root]


def read(root: str, location: Any) -> Annotations:
    """Read the LabelMe files below a folder. The categories are the classes that occur.

    Images without a file count as not annotated yet.

    Raises:
        DataError: if the folder is missing; while the images are read, if no file is LabelMe's.
    """
    folder, _ = locate(root, location)
    inside = os.path.relpath(folder, root).replace(os.sep, "/") if folder != root else ""
    below = list_folder(folder)
    paths = [*below.paths(".json"), *below.folders_named(".json")]  # the latter go to quarantine
    names = [posixpath.normpath(posixpath.join(inside, path)) for path in paths]
    available = ImageFiles(root)
    found = Annotations(keypoint_names=shapes.keypoint_names(_read_pointed(root, names, available)))

    def read_one(name: str) -> AnnotatedImage | None:
        image = _read_image(root, name, available)
        return shapes.fill_keypoints(*image, found.keypoint_names) if image else None

    inner = f"{inside}/" if inside else ""
    found = with_unannotated(read_each(found, names, read_one, available), available, inner)
    return dataclasses.replace(found, images=_checked(found, files.join(root, inside)))


def _checked(found: Annotations, where: str) -> Iterator[AnnotatedImage]:
    """Yield the annotated images; then raise DataError if no file is LabelMe's."""
    yield from found.images
    if not found.about and not found.rejected:
        raise DataError("expected LabelMe files, found none; correct data.path or data.format", where=where)


def _read_image(root: str, name: str, available: ImageFiles) -> _Read | None:
    """Return the content of a file; None for other tools' files, such as settings."""
    content = parse_json(files.join(root, name))
    if isinstance(content, Mapping) and not {"shapes", "imagePath"} & set(content):
        return None
    return _image(root, name, mapping_of(content, "the file"), available)


def _read_pointed(root: str, names: Sequence[str], available: ImageFiles) -> Iterator[_Read]:
    """Yield the content of files with points; the others, which are most, are not parsed."""
    for name in names:
        with contextlib.suppress(Rejected):  # reported when the file is read
            if _POINT in read_annotation(files.join(root, name), MAX_IMAGE_FILE_BYTES) and (
                read := _read_image(root, name, available)
            ):
                yield read


def _picture(root: str, name: str, image: str, data: object, available: ImageFiles) -> tuple[str, str]:
    """Return path and name of an annotation file's image: a file, or embedded."""
    try:
        filename = available.find(image, beside=layouts.stem(name))
        if available.has(filename) or not (isinstance(data, str) and data):
            return available.path(filename), filename
    except Rejected:
        if not (isinstance(data, str) and data):
            raise
    text, where = data.encode("ascii", "replace"), files.join(root, name)
    at = read_annotation(where).find(text)
    if at < 0:
        raise Rejected("unreadable_annotation", "expected imageData as plain base64, found it with escapes")
    filename = posixpath.join(
        posixpath.dirname(name), posixpath.basename(layouts.name_here(image)) or layouts.stem(name)
    )
    return part_path(FilePart(at, len(text), where, base64=True)), filename


def _image(root: str, name: str, content: Mapping[str, Any], available: ImageFiles) -> _Read:
    """Return an image, and the named points that belong to each of its objects."""
    image_path = checked_text(content.get("imagePath"), "imagePath").replace("\\", "/")
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(name), image_path))
    path, filename = _picture(root, name, beside, content.get("imageData"), available)
    width, height = size_of(content.get("imageWidth"), content.get("imageHeight"))
    given = [mapping_of(shape, "a shape") for shape in list_of(content.get("shapes"), "shapes")]
    objects, points = read_objects(given, width, height)
    source_id = checked_id(checked_text(layouts.stem(name), "the file's name"))
    image = AnnotatedImage(source_id, filename, path, width, height, objects)
    return image, points


_NO_CLASSES = ("__ignore__", "_background_")
"""Labels that LabelMe's converters skip."""

Shape = Mapping[str, Any]


def read_objects(
    given: Sequence[Shape], width: int, height: int
) -> tuple[list[AnnotatedObject], list[Points]]:
    """Return the objects of an image, and the named points of each.

    Shapes with LabelMe's reserved labels are skipped. Outlines with the same label and `group_id` are one
    object. A point belongs to the object with its `group_id`.

    Raises:
        Rejected: if a shape is malformed or has no area.
    """
    objects: dict[object, AnnotatedObject] = {}
    points: list[tuple[object, str, shapes.Point, str]] = []
    drawn = 0
    check_count(len(given))
    for number, shape in enumerate(given, start=1):
        label = f"shape {number}"
        name = checked_text(shape.get("label"), f"{label}: label").strip()
        if name in _NO_CLASSES:
            continue
        group, kind = shape.get("group_id"), shape.get("shape_type") or "polygon"
        corners = [
            point_of(point, f"{label}: a point") for point in list_of(shape.get("points"), f"{label}: points")
        ]
        if kind == "point" and corners and isinstance(group, int | str):
            points.append((group, name, corners[0], label))
            continue
        if not isinstance(kind, str) or kind not in _SHAPES:
            raise Malformed(
                f"{label}: expected one of {', '.join(_SHAPES)}, or a point with the group_id of one, "
                f"found {kind!r:.40}"
            )
        item = _SHAPES[kind](_Drawn(shape, name, corners, label, (width, height)))
        drawn = shapes.add_mask(drawn, item)
        key = (name, group) if isinstance(group, int | str) else number
        objects[key] = shapes.join_objects(objects[key], item) if key in objects else item
    return list(objects.values()), _points_of(objects, points)


def _points_of(
    objects: Iterable[object], points: Sequence[tuple[object, str, shapes.Point, str]]
) -> list[Points]:
    """Return the named points of each object, given the objects' keys: class and group, or a number."""
    named: dict[object, dict[str, shapes.Point]] = {key: {} for key in objects}
    of_group: dict[object, list[object]] = collections.defaultdict(list)
    for key in named:
        if isinstance(key, tuple):
            of_group[key[1]].append(key)
    for group, name, point, label in points:
        owners = of_group.get(group, [])
        if len(owners) != 1 or name in named[owners[0]]:
            raise Malformed(
                f"{label}: expected one object with the point's group_id {group!r:.40}, and one point of its "
                f"name, found {len(owners)} objects"
            )
        named[owners[0]][name] = point
    return list(named.values())


class _Drawn(NamedTuple):
    """A shape, its class, its corners, its name in messages and its image's size."""

    shape: Shape
    name: str
    points: list[shapes.Point]
    label: str
    size: tuple[int, int]


def _polygon(drawn: _Drawn) -> AnnotatedObject:
    return shapes.polygon_object(drawn.name, drawn.points, drawn.label)


def _rectangle(drawn: _Drawn) -> AnnotatedObject:
    if len(drawn.points) != 2:
        return _polygon(drawn)
    return AnnotatedObject(drawn.name, shapes.box_around(drawn.points), label=drawn.label)


def _circle(drawn: _Drawn) -> AnnotatedObject:
    points, label = drawn.points, drawn.label
    if len(points) != 2:
        raise Malformed(f"{label}: expected center and edge of a circle, found {points!r:.80}")
    radius = math.dist(*points)
    return shapes.polygon_object(drawn.name, shapes.ellipse(points[0], (radius, radius)), label)


def _mask(drawn: _Drawn) -> AnnotatedObject:
    """Return an object from a picture of its mask between two corner points."""
    import numpy as np

    from detection_core.data.pixels import open_picture

    points, label = drawn.points, drawn.label
    if len(points) != 2:
        raise Malformed(f"{label}: expected two corners of a mask, found {points!r:.80}")
    try:
        data = base64.b64decode(drawn.shape["mask"], validate=True)
        with open_picture(io.BytesIO(data)) as picture:
            patch = np.asarray(picture.convert("L")) > 0
    except (KeyError, TypeError, ValueError, ImageFault) as e:
        raise Malformed(f"{label}: expected a PNG file as base64 text: {e}") from e
    xmin, ymin, _, _ = shapes.box_around(points)
    # Both corners are pixels of the mask.
    return shapes.mask_object(drawn.name, patch, (round(xmin), round(ymin)), drawn.size, label)


_SHAPES: dict[str, Callable[[_Drawn], AnnotatedObject]] = {
    "polygon": _polygon,
    "rectangle": _rectangle,
    "rotation": _polygon,
    "oriented_rectangle": _polygon,
    "circle": _circle,
    "mask": _mask,
}
