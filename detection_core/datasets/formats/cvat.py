"""CVAT for images 1.1: an XML file with all images, https://docs.cvat.ai/docs/manual/advanced/xml_format/."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    Annotations,
    ImageLabel,
    Rejected,
    Rejection,
    Rejections,
    checked_id,
    checked_text,
)
from detection_core.datasets.formats.annotation_files import (
    AnnotationFile,
    Source,
    describe_files,
    locate_paths,
    locate_sources,
)
from detection_core.datasets.formats.cvat_shapes import Names, read_objects
from detection_core.datasets.formats.xml_files import read_children
from detection_core.datasets.image_files import ImageFiles
from detection_core.datasets.keypoints import check_keypoint_names
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
    """Find the CVAT files in a folder, and where their images are.

    Raises:
        DataError: for a file of video tracks, and when there is no telling which split each file is.
    """
    found = find_files(listing)
    videos = [path for path, file in found.items() if not file.names]
    if videos and len(videos) == len(found):
        raise DataError(f"expected images, found tracks of a video; {_VIDEO}", where=listing.path(videos[0]))
    images = {path: file for path, file in found.items() if file.names}
    return describe_files(listing, "cvat", "CVAT XML", images)


def find_files(listing: FolderListing) -> dict[str, AnnotationFile]:
    """Return the CVAT files in a folder; those of video without names of images."""
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


def locate(root: str, location: Any) -> list[str]:
    """Find the XML file and the image folder of a split.

    Args:
        root: folder of the data set.
        location: `{"annotations": FILE, "images": FOLDER}`, relative to `root`, with `"subset": "Train"` for
            the images of a subset; None for every such file below `root`.

    Raises:
        ConfigError: when the location is something else.
        DataError: when one of them is not there.
    """
    return locate_paths(root, location, find_files, _WHAT)


def read(root: str, location: Any) -> Annotations:
    """Read the XML files of a split. The categories are the labels of the task.

    Args:
        root: folder of the data set.
        location: see `locate`.

    Raises:
        DataError: when a file as a whole cannot be used.
    """
    rejected = Rejections()
    categories: dict[str, int] = {}
    keypoint_names: dict[str, list[str]] = {}
    images = (
        _read_images(source, categories, keypoint_names, rejected)
        for source in locate_sources(root, location, find_files, _WHAT)
    )
    return Annotations(
        categories=categories,
        images=itertools.chain.from_iterable(images),
        rejected=rejected,
        keypoint_names=keypoint_names,
    )


def _read_images(
    source: Source, categories: dict[str, int], keypoint_names: Names, rejected: list[Rejection]
) -> Iterator[AnnotatedImage]:
    available, file = ImageFiles(source.images), source.annotations.rpartition("/")[2]
    found: dict[str, int] = {}
    for element in _children(source.annotations):
        if element.tag == "meta":
            declared, points = _declared(element)
            # Projects list the labels under every task, a job its own; an old file lists none.
            categories |= dict.fromkeys(declared, 0)
            keypoint_names |= points
            check_keypoint_names(keypoint_names, source.annotations)
        if element.tag != "image" or (source.subset and element.get("subset") != source.subset):
            continue
        try:
            image = _image(element, available, keypoint_names)
        except Rejected as e:
            rejected.append(Rejection(file, str(element.get("name")), e.reason, e.detail))
            continue
        found.update((item.name, 0) for item in image.objects)
        yield image
    categories |= found


def _children(path: str) -> Iterator[ElementTree.Element]:
    """Yield the elements below the root, which has to be that of a file with images."""

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


def _declared(meta: ElementTree.Element) -> tuple[list[str], Names]:
    """Return the labels of the task, and the names of the points of skeletons."""
    names: list[str] = []
    points: dict[str, dict[str, None]] = {}
    for element in meta.iterfind(".//labels/label"):
        name, parent = ((element.findtext(key) or "").strip() for key in ("name", "parent"))
        if parent:
            points.setdefault(parent, {})[name] = None
        elif name:
            names.append(name)
    return names, {parent: list(own) for parent, own in points.items()}


def _image(element: ElementTree.Element, available: ImageFiles, keypoint_names: Names) -> AnnotatedImage:
    filename = available.find(checked_text(element.get("name"), "the image's name"))
    try:
        width, height = (int(element.get(side) or 0) for side in ("width", "height"))
    except ValueError as e:
        raise Rejected("malformed_record", f"expected width and height in pixels: {e}") from e
    objects = read_objects(element, width, height, keypoint_names)
    labels = [ImageLabel(checked_text(tag.get("label"), "a tag's label")) for tag in element.iterfind("tag")]
    path = available.path(filename)
    return AnnotatedImage(checked_id(filename), filename, path, width, height, objects, labels)
