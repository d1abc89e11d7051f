"""The result of every reader: images with their objects, and rejected annotations."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, NamedTuple

from detection_core.bounded.limits import MAX_LONG_TEXT_BYTES, MAX_OBJECTS, MAX_REJECTED
from detection_core.data.image_header import IMAGE_FAULTS, MAX_PIXELS
from detection_core.errors import DataError, is_exhausted
from detection_core.storage import files

ANNOTATION_FAULTS = {
    "malformed_record": "an image entry lacks a field, or one has the wrong type",
    "malformed_annotation": "an object lacks a field, or one has the wrong type",
    "missing_annotation": "the image set names an image that has no annotation file",
    "unreadable_annotation": "the annotation file of the image cannot be parsed",
    "unknown_image": "an annotation names an image that is not listed",
    "unknown_category": "an object's class is in no category list or not in the label map",
    "duplicate_id": "the image id is used a second time in its split",
    "path_outside": "the file name leaves the image folder",
}
BOX_FAULTS = {
    "box_not_finite": "a coordinate or area is not a finite number, or is beyond float32",
    "box_inverted": "the box's right or lower edge comes before the left or upper one",
    "box_degenerate": "the box has no width or no height",
    "box_outside": "the box leaves the image by more than a rounding error",
}
SHAPE_FAULTS = {
    "malformed_mask": "a polygon, run-length encoding or mask file of an object cannot be used",
    "malformed_keypoints": "an object's keypoints are not those that its class has, or are no numbers",
}
FILE_FAULTS = {
    "missing_image": "the image file does not exist",
    "unreadable_image": "the image file cannot be opened, or is no regular file",
    "size_mismatch": "the annotation was made for another image size, so the boxes cannot be placed",
}
REASONS = {**ANNOTATION_FAULTS, **BOX_FAULTS, **SHAPE_FAULTS, **FILE_FAULTS, **IMAGE_FAULTS}
"""Every reason for quarantine."""


MAX_ANNOTATION_BYTES = 1 << 33
"""Bytes of a file with the annotations of many images, which is read in pieces: ten times Objects365's."""


class Polygons(NamedTuple):
    """A mask as the union of polygons.

    Attributes:
        rings: x, y, x, y, ... of each, three points or more, in what the box of the object is in.
    """

    rings: Sequence[Sequence[float]]


class RunLengths(NamedTuple):
    """A mask as COCO's run-length encoding: down the columns, zeros first.

    Attributes:
        height: rows in pixels, as encoded.
        width: columns in pixels.
        counts: lengths of the runs, or their compressed form, as pycocotools writes it.
    """

    height: int
    width: int
    counts: Sequence[int] | str


class MaskFile(NamedTuple):
    """A mask as an image file whose pixels other than 0 are the object's.

    Attributes:
        path: where it is; the mask is stretched to the image where it has another size.
    """

    path: str


Mask = Polygons | RunLengths | MaskFile

Keypoint = tuple[float, float, int]
"""x and y, in what the object's box is in, and COCO's visibility: 0 not labelled, 1 hidden, 2 seen."""


class AnnotatedObject(NamedTuple):
    """One annotated object.

    Attributes:
        name: its class.
        box: (xmin, ymin, xmax, ymax) as annotated: in pixels, or in fractions of the image where
            `AnnotatedImage.in_fractions` is set.
        area: square pixels; 0 where the source gives none.
        crowd: 1 for a box round a group.
        difficult: 0 or 1; None where the format does not say. Likewise every field after the label.
        truncated: 0 or 1.
        pose: in the annotator's words.
        label: how messages name it, such as `annotation 17`.
        mask: which pixels are the object's, as annotated.
        keypoints: one for each name that `Annotations.keypoint_names` has for its class, in that order.
        group_of: 0 or 1; Open Images' box round five objects or more that touch.
        occluded: 0 or 1.
        depiction: 0 or 1; a drawing or a statue of it.
        confidence: of the annotation, 0 to 1.
        weight: of its loss in training.
    """

    name: str
    box: tuple[float, float, float, float]
    area: float
    crowd: int
    difficult: int | None
    truncated: int | None
    pose: str | None
    label: str
    mask: Mask | None = None
    keypoints: Sequence[Keypoint] | None = None
    group_of: int | None = None
    occluded: int | None = None
    depiction: int | None = None
    confidence: float | None = None
    weight: float | None = None


class ImageLabel(NamedTuple):
    """A class that somebody or something looked for in the whole image.

    Attributes:
        name: the class.
        confidence: 1 verified to be there, 0 verified not to be there, between them as a machine says.
    """

    name: str
    confidence: float = 1.0


class AnnotatedImage(NamedTuple):
    """One annotated image.

    Attributes:
        source_id: unique in its split.
        filename: as the annotation gives it, relative to the image folder.
        path: where the file is.
        width: as annotated; 0 where the source does not say.
        height: likewise.
        objects: in the order of the source.
        labels: of the image as a whole; empty where the source has none.
        in_fractions: boxes, polygons and keypoints are in fractions of the image's width and height, not in
            pixels.
        example: path of the image's `tf.train.Example`, whose other features are kept; "" for other formats.
    """

    source_id: str
    filename: str
    path: str
    width: int
    height: int
    objects: list[AnnotatedObject]
    labels: Sequence[ImageLabel] = ()
    in_fractions: bool = False
    example: str = ""

    @property
    def annotated_size(self) -> tuple[int, int] | None:
        """Rows and columns as annotated; None where the source does not say, or no image has so many."""
        size = self.height, self.width
        return size if all(0 < side <= MAX_PIXELS for side in size) else None


class Rejection(NamedTuple):
    """An image or annotation in quarantine.

    Attributes:
        file: image or annotation file, relative to its folder.
        record: id of the image or annotation; "" where there is none.
        reason: a key of `REASONS`.
        detail: what was found.
    """

    file: str
    record: str
    reason: str
    detail: str


class Rejections(list[Rejection]):
    """What cannot be used of a file, up to a number at which the file is not what it was taken for."""

    def append(self, item: Rejection) -> None:
        """Add one more.

        Raises:
            DataError: when there are too many.
        """
        super().append(item)
        if len(self) > MAX_REJECTED:
            raise DataError(
                f"expected at most {MAX_REJECTED:,} annotations that cannot be used, found more, the first as"
                f" follows: {self[0].detail}; look whether data.format is right",
                where=self[0].file,
            )


class Rejected(Exception):
    """Raised to put one image in quarantine.

    Attributes:
        reason: a key of `REASONS`.
        detail: what was found.
        mentions: texts that may be the image's name, if the name is unknown.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail
        self.mentions: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Annotations:
    """What a reader found.

    The images may come one by one as the annotations are read, so that no data set is too large. They are
    read once; everything else is complete when the last of them has been.

    Attributes:
        categories: class name to the id that the source gives it; to 0 where it gives none.
        images: sound so far; boxes and files are checked when the images are read.
        rejected: images and annotations that cannot be used.
        keypoint_names: class name to the names of its keypoints, for classes that have them.
        unannotated: images that lie there and that no annotation is about, for formats that do not list all.
        about: paths of the images that annotations are about, those that cannot be used among them; for the
            same formats.
    """

    categories: dict[str, int]
    images: Iterable[AnnotatedImage]
    rejected: list[Rejection]
    keypoint_names: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    unannotated: list[AnnotatedImage] = dataclasses.field(default_factory=list)
    about: set[str] = dataclasses.field(default_factory=set)


def path_inside(folder: str, name: str) -> str:
    """Join a file name from an annotation to the image folder.

    Only the name is judged. A link inside the folder may lead elsewhere: its owner made it, the annotation
    did not.

    Raises:
        Rejected: when the name is empty, absolute, a URL, climbs out of the folder or holds a null character.
    """
    climbs = os.path.normpath(name).split(os.sep)[0] == os.pardir
    if not name or "\0" in name or "://" in name or os.path.isabs(name) or climbs:
        raise Rejected("path_outside", f"the file name {name!r} leaves the image folder")
    return os.path.join(folder, name)


def read_annotation(path: str, longest: int = MAX_LONG_TEXT_BYTES) -> bytes:
    """Return the bytes of the annotation file of an image.

    Args:
        path: of the file.
        longest: bytes that it may have.

    Raises:
        Rejected: when the file is missing, larger, or cannot be read.
    """
    with _rejected_if_unreadable():
        return files.read_regular(path, longest)


def check_count(count: int, what: str = "annotations of an image", most: int = MAX_OBJECTS) -> None:
    """Refuse an image with more annotations, or whatever it is, than are kept in memory.

    Raises:
        Rejected: as a malformed record.
    """
    if count > most:
        raise Rejected("malformed_record", f"expected at most {most:,} {what}, found more")


@contextlib.contextmanager
def open_annotation(path: str) -> Iterator[IO[bytes]]:
    """Open an annotation file to be read in pieces.

    Raises:
        Rejected: when the file is missing or cannot be read, also inside the block.
    """
    with _rejected_if_unreadable(), files.open_regular(path, MAX_ANNOTATION_BYTES) as file:
        yield file


@contextlib.contextmanager
def _rejected_if_unreadable() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as e:
        raise Rejected("missing_annotation", "the file does not exist") from e
    except OSError as e:
        if is_exhausted(e):
            raise
        raise Rejected("unreadable_annotation", f"the file cannot be read: {e.strerror}") from e


_LONGEST_TEXT = 4_096  # as Linux has paths; whatever shows a name would be filled with a longer one


def checked_text(value: object, what: str) -> str:
    """Return a value, checked to be text that UTF-8 can encode, and no longer than a name can be.

    Raises:
        Rejected: as a malformed record.
    """
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        found = f"{value[:40]!r}... of {len(value):,}"
        message = f"expected {what} in {_LONGEST_TEXT:,} characters at most, found {found}"
        raise Rejected("malformed_record", message)
    if not isinstance(value, str) or not value.isprintable() or not value.strip():
        raise Rejected("malformed_record", f"expected {what} as printable text, found {value!r:.80}")
    return value


def checked_id(text: str) -> str:
    """Return an image's id as text, checked to be encodable as UTF-8.

    Raises:
        Rejected: as a malformed record.
    """
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise Rejected("malformed_record", f"expected an id that UTF-8 can hold, found {text!a:.80}") from e
    return text
