"""The annotation formats: how each is recognised, finds its files and reads them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detection_core.datasets.annotated_images import Annotations
from detection_core.datasets.classes import check_keypoint_names
from detection_core.datasets.formats import (
    coco,
    createml,
    csv_boxes,
    cvat,
    label_studio,
    labelme,
    open_images,
    tfrecord,
    via,
    voc,
    yolo,
    yolo_layout,
)
from detection_core.datasets.image_parts import keep_part, locate_part, part_names
from detection_core.datasets.layouts import Layout
from detection_core.errors import ConfigError
from detection_core.storage.folder_listing import FolderListing


def find_nothing(listing: FolderListing) -> Layout | None:
    """Find no data set: for a format that is only read when settings name it."""
    return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotationReader:
    """An annotation format.

    Attributes:
        locate: (root, location) to the files and folders that a split is read from; "" for none.
        read: (root, location) to what is in them. A location is what `splits` gives for a split, or None
            where everything is to be split by ratio.
        find: the listing of a folder to the data set of this format in it, None where there is none. It looks
            at names and at the beginnings of files, and raises a DataError for a set that it cannot divide.
        looks_for: what `find` looks for, in a line.
        background: an image that no annotation is about shows nothing, by the format's convention; else it
            was not looked at yet.
        read_named: as `read`, with names of classes by id, for a format that may hold ids alone; None for
            others.
        image_files: images are files beside the annotations, so that folders and lists of them can be splits.
    """

    locate: Callable[[str, Any], Sequence[str]]
    read: Callable[[str, Any], Annotations]
    find: Callable[[FolderListing], Layout | None] = find_nothing
    looks_for: str = ""
    background: bool = False
    read_named: Callable[[str, Any, Mapping[int, str]], Annotations] | None = None
    image_files: bool = True

    def locate_split(self, root: str, location: Any) -> Sequence[str]:
        """Return the files and folders that a split is read from; "" for none.

        Args:
            root: folder of the data set.
            location: as `locate` takes it, or a part of the images, see `image_parts`.
        """
        names = part_names(location)
        if names is None or not self.image_files:
            return self.locate(root, location)
        return [*self.locate(root, None), *locate_part(root, names)]

    def read_split(self, root: str, location: Any, class_names: Mapping[int, str] | None) -> Annotations:
        """Read a split, with background images as the format has them.

        Args:
            root: folder of the data set.
            location: of the split.
            class_names: id to name, as far as something beside the annotations tells them.
        """
        found = self.read_annotations(root, location, class_names)
        if not self.background:
            return found
        # The latter are complete when the former have been read.
        images = itertools.chain(found.images, found.unannotated)
        return dataclasses.replace(found, images=images, unannotated=[])

    def read_annotations(
        self, root: str, location: Any, class_names: Mapping[int, str] | None
    ) -> Annotations:
        """Read a split, images that no annotation is about apart from the others; arguments as above."""
        names = part_names(location) if self.image_files and self.read_named is None else None
        if self.read_named is not None:
            found = self.read_named(root, location, class_names or {})
        elif names is None:
            found = self.read(root, location)
        else:
            found = keep_part(self.read(root, None), root, names)
        check_keypoint_names(found.keypoint_names, root)
        return found


READERS: dict[str, AnnotationReader] = {
    "coco": AnnotationReader(locate=coco.locate, read=coco.read, find=coco.find, looks_for=coco.LOOKS_FOR),
    "voc": AnnotationReader(locate=voc.locate, read=voc.read, find=voc.find, looks_for=voc.LOOKS_FOR),
    "yolo": AnnotationReader(
        locate=yolo.locate,
        read=yolo.read,
        find=yolo_layout.find,
        looks_for=yolo_layout.LOOKS_FOR,
        background=True,
    ),
    "cvat": AnnotationReader(locate=cvat.locate, read=cvat.read, find=cvat.find, looks_for=cvat.LOOKS_FOR),
    "label_studio": AnnotationReader(
        locate=label_studio.locate,
        read=label_studio.read,
        find=label_studio.find,
        looks_for=label_studio.LOOKS_FOR,
    ),
    "labelme": AnnotationReader(
        locate=labelme.locate, read=labelme.read, find=labelme.find, looks_for=labelme.LOOKS_FOR
    ),
    "csv": AnnotationReader(
        locate=csv_boxes.locate, read=csv_boxes.read, find=csv_boxes.find, looks_for=csv_boxes.LOOKS_FOR
    ),
    "createml": AnnotationReader(
        locate=createml.locate, read=createml.read, find=createml.find, looks_for=createml.LOOKS_FOR
    ),
    "via": AnnotationReader(locate=via.locate, read=via.read, find=via.find, looks_for=via.LOOKS_FOR),
    "open_images": AnnotationReader(
        locate=open_images.locate,
        read=open_images.read,
        find=open_images.find,
        looks_for=open_images.LOOKS_FOR,
    ),
    "tfrecord": AnnotationReader(
        locate=tfrecord.locate,
        read=tfrecord.read,
        find=tfrecord.find,
        looks_for=tfrecord.LOOKS_FOR,
        read_named=tfrecord.read_named,
        image_files=False,
    ),
}
"""Format, as `data.format` names it, to reader; `register_reader` adds to it."""


def register_reader(data_format: str, reader: AnnotationReader) -> None:
    """Let settings name an annotation format from outside the package as `data.format`.

    Raises:
        ValueError: when the name is taken.
    """
    if data_format in READERS:
        raise ValueError(
            f"expected a new name for a format, found {data_format!r}, which is taken; rename it"
        )
    READERS[data_format] = reader


def unregister_reader(data_format: str) -> None:
    """Forget a format from outside, as tests do."""
    READERS.pop(data_format, None)


def find_reader(data_format: str) -> AnnotationReader:
    """Return the reader of a format.

    Raises:
        ConfigError: for a format that is not in the table.
    """
    if data_format not in READERS:
        raise ConfigError(f"expected one of {sorted(READERS)}, found {data_format!r}", where="data_format")
    return READERS[data_format]
