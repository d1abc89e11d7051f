"""The table of annotation formats and their readers."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from detection_core.datasets.annotated_images import Annotations, ReadAll, read_here
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
)
from detection_core.datasets.image_parts import keep_part, locate_part, part_names
from detection_core.datasets.layouts import Layout
from detection_core.errors import ConfigError
from detection_core.storage.folder_listing import FolderListing


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotationReader:
    """An annotation format.

    Attributes:
        locate: (root, location) to the files and folders of a split; "" for none.
        read: (root, location) to the annotations. A location is the value of `splits` for a split, or None
            for a set that is split by ratio.
        find: folder listing to the data set of this format in it, or None. It checks names and the beginnings
            of files, and raises DataError for a set that it cannot divide. By default, settings must name it.
        looks_for: the files that `find` looks for, in one line.
        background: whether an image without annotations has no objects in this format; else it counts as
            not annotated yet.
        read_named: like `read`, with class names by id, for formats that may have ids only; else None.
        many_files: whether `read`, or `read_named`, takes a `ReadAll`, too.
        image_files: whether images are separate files, so that folders and lists of them can be splits.
    """

    locate: Callable[[str, Any], Sequence[str]]
    read: Callable[..., Annotations]
    find: Callable[[FolderListing], Layout | None] = lambda _: None
    looks_for: str = ""
    background: bool = False
    read_named: Callable[..., Annotations] | None = None
    many_files: bool = False
    image_files: bool = True

    def locate_split(self, root: str, location: Any) -> Sequence[str]:
        """Return the files and folders of a split or of a part of its images (`image_parts`); "" for none."""
        names = part_names(location)
        if names is None or not self.image_files:
            return self.locate(root, location)
        return [*self.locate(root, None), *locate_part(root, names)]

    def read_split(self, root: str, location: Any, class_names: Mapping[int, str] | None) -> Annotations:
        """Read a split, including background images if the format has them.

        `class_names` is id to name, if a source other than the annotations gives them.
        """
        found = self.read_annotations(root, location, class_names)
        if not self.background:
            return found
        # `unannotated` is complete after the last image.
        images = itertools.chain(found.images, found.unannotated)
        return dataclasses.replace(found, images=images, unannotated=[])

    def read_annotations(
        self, root: str, location: Any, class_names: Mapping[int, str] | None, read_all: ReadAll = read_here
    ) -> Annotations:
        """Read a split, with images without annotations kept apart; arguments as in `read_split`."""
        more = {"read_all": read_all} if self.many_files else {}
        if self.read_named is not None:
            found = self.read_named(root, location, class_names or {}, **more)
        elif self.image_files and (names := part_names(location)) is not None:
            found = keep_part(self.read(root, None, **more), root, names)
        else:
            found = self.read(root, location, **more)
        check_keypoint_names(found.keypoint_names, root)
        return found


class _Format(Protocol):
    """Interface of a module of `formats`."""

    LOOKS_FOR: str

    def locate(self, root: str, location: Any) -> Sequence[str]: ...

    def read(self, root: str, location: Any) -> Annotations: ...

    def find(self, listing: FolderListing) -> Layout | None: ...


def _reader(module: _Format, **more: Any) -> AnnotationReader:
    return AnnotationReader(
        locate=module.locate, read=module.read, find=module.find, looks_for=module.LOOKS_FOR, **more
    )


READERS: dict[str, AnnotationReader] = {
    "coco": _reader(coco),
    "voc": _reader(voc, many_files=True),
    "yolo": _reader(yolo, many_files=True, background=True),
    "cvat": _reader(cvat),
    "label_studio": _reader(label_studio),
    "labelme": _reader(labelme),
    "csv": _reader(csv_boxes),
    "createml": _reader(createml),
    "via": _reader(via),
    "open_images": _reader(open_images),
    "tfrecord": _reader(tfrecord, read_named=tfrecord.read, many_files=True, image_files=False),
}
"""Value of `data.format` to reader; `register_reader` adds entries."""


def register_reader(data_format: str, reader: AnnotationReader) -> None:
    """Register an outside annotation format as a value of `data.format`; ValueError if the name is taken."""
    if data_format in READERS:
        raise ValueError(
            f"expected a new name for a format, found {data_format!r}, which is taken; rename it"
        )
    READERS[data_format] = reader


def find_reader(data_format: str) -> AnnotationReader:
    """Return the reader of a format. Raises ConfigError if the format is unknown."""
    if data_format not in READERS:
        raise ConfigError(f"expected one of {sorted(READERS)}, found {data_format!r}", where="data_format")
    return READERS[data_format]
