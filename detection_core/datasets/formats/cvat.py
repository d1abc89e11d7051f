"""CVAT for images 1.1: an XML file with all images, https://docs.cvat.ai/docs/manual/advanced/xml_format/."""

import dataclasses
import html
import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from xml.etree import ElementTree

from detection_core.bounded.limits import MAX_KEYPOINTS, MAX_VALUES
from detection_core.datasets import shapes
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Annotations,
    ImageLabel,
    Keypoint,
    Malformed,
    Polygons,
    Rejected,
    Rejections,
    check_count,
    checked_id,
    checked_text,
    rejecting,
)
from detection_core.datasets.classes import check_keypoint_names
from detection_core.datasets.formats.annotation_files import AnnotationFile, FileFormat, Source
from detection_core.datasets.formats.xml_files import read_children
from detection_core.datasets.image_files import ImageFiles
from detection_core.datasets.layouts import Layout, split_word
from detection_core.errors import DataError
from detection_core.storage.folder_listing import FolderListing

LOOKS_FOR = "CVAT for images 1.1: an XML file with <annotations> and <image name=...>"

_WHAT = "a file of CVAT for images 1.1"
_NAME = re.compile(rb'<image\b[^<>]*?\bname="([^"<>]*)"')
_SUBSET = re.compile(rb'<image\b[^<>]*?\bsubset="([^"<>]*)"')
_VIDEO = 'export the task as "CVAT for images 1.1", which has the frames as images'
_SAMPLE = 50


def find(listing: FolderListing) -> Layout | None:
    """Find CVAT files and their image folders; DataError for video tracks, or ambiguous splits."""
    found = find_files(listing)
    videos = [path for path, file in found.items() if not file.names]
    if videos and len(videos) == len(found):
        raise DataError(f"expected images, found tracks of a video; {_VIDEO}", where=listing.path(videos[0]))
    images = {path: file for path, file in found.items() if file.names}
    return _FORMAT.describe(listing, images)


def find_files(listing: FolderListing) -> dict[str, AnnotationFile]:
    """Return the CVAT files in a folder; video files have no image names."""
    found = {}
    for path in listing.paths(".xml"):
        head, tail = listing.ends(path)
        if b"<annotations>" not in head:
            continue
        names = [_text(name) for name in _NAME.findall(head + tail)]
        if names or b"<track " in head + tail:
            subsets = {split_word(word): word for word in map(_text, _SUBSET.findall(head + tail))}
            subsets.pop("", None)
            found[path] = AnnotationFile(
                names=[*names[:_SAMPLE], *names[_SAMPLE:][-_SAMPLE:]], subsets=subsets
            )
    return found


def _text(data: bytes) -> str:
    return html.unescape(data.decode(errors="replace"))


_FORMAT = FileFormat(name="cvat", title="CVAT XML", what=_WHAT, find_files=find_files)
locate = _FORMAT.locate


def read(root: str, location: Any) -> Annotations:
    """Read the XML files of a split. The categories are the labels of the task.

    In the location, `"subset": "Train"` means the images of a subset; see `FileFormat.sources`.

    Raises:
        DataError: if a whole file cannot be used.
    """
    keypoint_names: dict[str, list[str]] = {}
    found = Annotations(rejected=Rejections(), keypoint_names=keypoint_names)
    images = (_read_images(source, keypoint_names, found) for source in _FORMAT.sources(root, location))
    return dataclasses.replace(found, images=itertools.chain.from_iterable(images))


def _read_images(source: Source, keypoint_names: "Names", found: Annotations) -> Iterator[AnnotatedImage]:
    available, file = ImageFiles(source.images), source.annotations.rpartition("/")[2]
    met: dict[str, int] = {}
    for element in _children(source.annotations):
        if element.tag == "meta":
            declared, points = _declared(element)
            # Projects list labels under every task, jobs under the job; old files list none.
            found.categories.update(dict.fromkeys(declared, 0))
            keypoint_names |= points
            check_keypoint_names(keypoint_names, source.annotations)
        if element.tag != "image" or (source.subset and element.get("subset") != source.subset):
            continue
        with rejecting(found.rejected, file, str(element.get("name"))):
            image = _image(element, available, keypoint_names)
            met.update((item.name, 0) for item in image.objects)
            yield image
    found.categories.update(met)


def _children(path: str) -> Iterator[ElementTree.Element]:
    """Yield the elements below the root; raise unless the file contains images."""

    def check_root(tag: str) -> None:
        if tag != "annotations":
            raise DataError(f"expected {_WHAT} with <annotations>, found <{tag:.40}>", where=path)

    try:
        for element in read_children(path, check_root):
            if element.tag == "track":
                raise DataError(f"expected images, found tracks of a video; {_VIDEO}", where=path)
            yield element
    except Rejected as e:
        raise DataError(f"expected {_WHAT}: {e.detail}", where=path) from e


def _declared(meta: ElementTree.Element) -> "tuple[list[str], Names]":
    """Return the labels of the task, and the names of skeletons' points."""
    names: list[str] = []
    points: dict[str, dict[str, None]] = {}
    for element in meta.iterfind(".//labels/label"):
        name, parent = ((element.findtext(key) or "").strip() for key in ("name", "parent"))
        if parent:
            points.setdefault(parent, {})[name] = None
        elif name:
            names.append(name)
    return names, {parent: list(own) for parent, own in points.items()}


def _image(element: ElementTree.Element, available: ImageFiles, keypoint_names: "Names") -> AnnotatedImage:
    filename = available.find(checked_text(element.get("name"), "the image's name"))
    try:
        width, height = (int(element.get(side) or 0) for side in ("width", "height"))
    except ValueError as e:
        raise Rejected("malformed_record", f"expected width and height in pixels: {e}") from e
    objects = read_objects(element, width, height, keypoint_names)
    labels = [ImageLabel(checked_text(tag.get("label"), "a tag's label")) for tag in element.iterfind("tag")]
    path = available.path(filename)
    return AnnotatedImage(checked_id(filename), filename, path, width, height, objects, labels)


_YES = ("1", "true", "yes")
_NOT_SHAPES = ("tag",)

Names = dict[str, list[str]]


def read_objects(
    image: ElementTree.Element, width: int, height: int, keypoint_names: Names
) -> list[AnnotatedObject]:
    """Return the objects of an image. Polygons with the same label and group are one object.

    Names are added to `keypoint_names` for a class without any.

    Raises:
        Rejected: if a shape cannot be used or has no area.
    """
    objects: dict[object, AnnotatedObject] = {}
    drawn = keypoints = 0
    check_count(len(image))
    elements = (element for element in image if element.tag not in _NOT_SHAPES)
    for number, element in enumerate(elements, start=1):
        label = f"{element.tag:.20} {number}"
        if element.tag not in _SHAPES:
            raise Malformed(
                f"{label}: expected one of {', '.join(_SHAPES)}, found a shape without area; leave it out"
            )
        name = checked_text(element.get("label"), f"{label}: label").strip()
        item = _SHAPES[element.tag](_Shape(element, name, label, (width, height), keypoint_names))
        drawn = shapes.add_mask(drawn, item)
        keypoints += len(item.keypoints or ())
        check_count(keypoints, "keypoints of an image", MAX_VALUES)
        item = _with_flags(item, element)
        group = element.get("group_id") or "0"
        key = (name, group) if group != "0" and isinstance(item.mask, Polygons) else number
        objects[key] = shapes.join_objects(objects[key], item) if key in objects else item
    return list(objects.values())


def _with_flags(item: AnnotatedObject, element: ElementTree.Element) -> AnnotatedObject:
    said = {
        (attribute.get("name") or "").lower(): int((attribute.text or "").strip().lower() in _YES)
        for attribute in element.iterfind("attribute")
    }
    occluded = element.get("occluded")
    return item._replace(
        occluded=None if occluded is None else int(occluded in _YES),
        difficult=said.get("difficult"),
        truncated=said.get("truncated"),
        crowd=said.get("is_crowd", said.get("iscrowd", 0)),
    )


class _Shape(NamedTuple):
    """A drawn shape, its class, its name in messages, its image's size and the keypoints of all classes."""

    element: ElementTree.Element
    name: str
    label: str
    size: tuple[int, int]
    keypoint_names: Names

    def numbers(self, *keys: str) -> list[float]:
        try:
            values = [float(self.element.get(key) or "nothing") for key in keys]
        except ValueError:
            values = [math.nan]
        if not all(map(math.isfinite, values)):
            found = {key: self.element.get(key) for key in keys}
            raise Malformed(f"{self.label}: expected numbers, found {found!r:.120}")
        return values

    def rotation(self) -> float:
        return self.numbers("rotation")[0] if self.element.get("rotation") else 0.0

    def outlined(self, points: list[shapes.Point]) -> AnnotatedObject:
        return shapes.polygon_object(self.name, points, self.label)


def _points(element: ElementTree.Element, label: str) -> list[shapes.Point]:
    text = element.get("points") or ""
    check_count(text.count(";"), "points of an outline")
    try:
        points = [tuple(map(float, pair.split(","))) for pair in text.split(";") if pair.strip()]
        if points and all(len(point) == 2 and all(map(math.isfinite, point)) for point in points):
            return [(point[0], point[1]) for point in points]
    except ValueError:
        pass
    raise Malformed(f"{label}: expected points as x,y;x,y, found {text!r:.80}")


def _box(shape: _Shape) -> AnnotatedObject:
    xtl, ytl, xbr, ybr = shape.numbers("xtl", "ytl", "xbr", "ybr")
    if not (degrees := shape.rotation()):
        return AnnotatedObject(shape.name, (xtl, ytl, xbr, ybr), label=shape.label)
    corners = shapes.rectangle(xtl, ytl, xbr - xtl, ybr - ytl)
    return shape.outlined(shapes.turn(corners, ((xtl + xbr) / 2, (ytl + ybr) / 2), degrees))


def _ellipse(shape: _Shape) -> AnnotatedObject:
    x, y, rx, ry = shape.numbers("cx", "cy", "rx", "ry")
    return shape.outlined(shapes.ellipse((x, y), (rx, ry), shape.rotation()))


def _mask(shape: _Shape) -> AnnotatedObject:
    left, top, width, height = map(int, shape.numbers("left", "top", "width", "height"))
    try:
        counts = [int(count) for count in (shape.element.get("rle") or "").split(",")]
    except ValueError as e:
        raise Malformed(f"{shape.label}: expected run lengths in rle: {e}") from e
    try:
        patch = shapes.row_mask(counts, width, height)
    except Rejected as e:
        raise Rejected(e.reason, f"{shape.label}: {e.detail}") from e
    return shapes.mask_object(shape.name, patch, (left, top), shape.size, shape.label)


def _skeleton(shape: _Shape) -> AnnotatedObject:
    """Return an object whose box surrounds the points inside the image."""
    label, points = shape.label, dict[str, Keypoint]()
    for point in shape.element.iterfind("points"):
        ((x, y), *_) = _points(point, label)
        seen = 0 if point.get("outside") in _YES else 1 if point.get("occluded") in _YES else 2
        points[checked_text(point.get("label"), f"{label}: a point's label")] = (x, y, seen)
    check_count(len(points), "keypoints of an object", MAX_KEYPOINTS)
    names = shape.keypoint_names.setdefault(shape.name, sorted(points))
    placed = [(x, y) for x, y, seen in points.values() if seen]
    if not placed or not set(points) <= set(names):
        raise Malformed(f"{label}: expected points of {names!r:.80}, found {sorted(points)!r:.80}")
    keypoints = [points.get(point, (0.0, 0.0, 0)) for point in names]
    return AnnotatedObject(shape.name, shapes.box_around(placed), label=label, keypoints=keypoints)


_SHAPES: dict[str, Callable[[_Shape], AnnotatedObject]] = {
    "box": _box,
    "polygon": lambda shape: shape.outlined(_points(shape.element, shape.label)),
    "ellipse": _ellipse,
    "mask": _mask,
    "skeleton": _skeleton,
}
