"""What every reader returns: images with their objects, and rejected annotations."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

from detection_core.bounded.limits import MAX_LONG_TEXT_BYTES, MAX_OBJECTS, MAX_REJECTED
from detection_core.bounded.plain_yaml import module_table
from detection_core.data.image_header import IMAGE_FAULTS, MAX_PIXELS
from detection_core.errors import DataError, is_exhausted
from detection_core.storage import files

_FAULTS: Mapping[str, Mapping[str, str]] = module_table(__file__)
BOX_FAULTS = _FAULTS["boxes"]
REASONS = {name: text for faults in (*_FAULTS.values(), IMAGE_FAULTS) for name, text in faults.items()}
"""The reasons for quarantine."""


MAX_ANNOTATION_BYTES = 1 << 33
"""Size limit of an annotation file of many images, which is read in pieces: ten times Objects365's."""


class Polygons(NamedTuple):
    """A mask as the union of polygons x, y, x, y, ... of three points or more, in the units of the box."""

    rings: Sequence[Sequence[float]]


class RunLengths(NamedTuple):
    """A mask in COCO's run-length encoding: column by column, zeros first.

    Attributes:
        height: rows in pixels.
        width: columns in pixels.
        counts: run lengths, or the compressed form that pycocotools writes.
    """

    height: int
    width: int
    counts: Sequence[int] | str


class MaskFile(NamedTuple):
    """A mask as an image file, resized to the image; nonzero pixels belong to the object."""

    path: str


Mask = Polygons | RunLengths | MaskFile

Keypoint = tuple[float, float, int]
"""x and y in the units of the object's box, and COCO's visibility: 0 not labelled, 1 hidden, 2 visible."""


Box = tuple[float, float, float, float]
"""xmin, ymin, xmax, ymax."""


class AnnotatedObject(NamedTuple):
    """One annotated object.

    Attributes:
        name: its class.
        box: (xmin, ymin, xmax, ymax) as annotated: in pixels, or in fractions of the image if
            `AnnotatedImage.in_fractions` is set.
        area: square pixels; 0 if unknown.
        crowd: 1 for a box around a group.
        difficult: 0 or 1; None if the format does not say. The same holds for the fields after `label`.
        truncated: 0 or 1.
        pose: as the annotator named it.
        label: name in messages, for example `annotation 17`.
        mask: the object's pixels, as annotated.
        keypoints: in the order of `Annotations.keypoint_names` for the object's class.
        group_of: 0 or 1; Open Images' box around five or more touching objects.
        occluded: 0 or 1.
        depiction: 0 or 1; a drawing or statue of the object.
        confidence: of the annotation, 0 to 1.
        weight: of the object's loss in training.
        note: to the annotator.
    """

    name: str
    box: Box
    area: float = 0.0
    crowd: int = 0
    difficult: int | None = None
    truncated: int | None = None
    pose: str | None = None
    label: str = ""
    mask: Mask | None = None
    keypoints: Sequence[Keypoint] | None = None
    group_of: int | None = None
    occluded: int | None = None
    depiction: int | None = None
    confidence: float | None = None
    weight: float | None = None
    note: str | None = None


OPTIONAL_FIELDS: dict[str, tuple[str, Any]] = {
    "difficult": ("image/object/difficult", 0),
    "truncated": ("image/object/truncated", 0),
    "pose": ("image/object/view", ""),
    "group_of": ("image/object/group_of", 0),
    "occluded": ("image/object/occluded", 0),
    "depiction": ("image/object/depiction", 0),
    "confidence": ("image/object/class/confidence", 1.0),
    "weight": ("image/object/weight", 1.0),
}
"""Field that an object may lack to its key in records, and its value if another object has the field."""


class ImageLabel(NamedTuple):
    """An image-level label.

    Attributes:
        name: the class.
        confidence: 1 verified as present, 0 verified as absent, in between for machine-generated labels.
    """

    name: str
    confidence: float = 1.0


LVIS_FIELDS = {"neg_category_ids": "absent", "not_exhaustive_category_ids": "not_exhaustive"}
"""Key of an image in LVIS's files, and below `image/` in records, to the field of `AnnotatedImage`."""


class AnnotatedImage(NamedTuple):
    """One annotated image.

    Attributes:
        source_id: unique in its split.
        filename: as annotated, relative to the image folder.
        path: of the image file.
        width: as annotated; 0 if unknown.
        height: as annotated; 0 if unknown.
        objects: in the order of the source.
        labels: image-level labels; empty if the source has none.
        in_fractions: whether boxes, polygons and keypoints are fractions of the image's size, not pixels.
        example: path of the image's `tf.train.Example`, whose other features are kept; "" for other formats.
        absent: classes verified as absent (LVIS).
        not_exhaustive: classes of which the image may have more objects (LVIS).
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
    absent: Sequence[str] = ()
    not_exhaustive: Sequence[str] = ()

    @property
    def annotated_size(self) -> tuple[int, int] | None:
        """Annotated (rows, columns); None if unknown or impossible."""
        size = self.height, self.width
        return size if all(0 < side <= MAX_PIXELS for side in size) else None


class Rejection(NamedTuple):
    """An image or annotation in quarantine.

    Attributes:
        file: image or annotation file, relative to its folder.
        record: id of the image or annotation; "" if there is none.
        reason: a key of `REASONS`.
        detail: the value or fault that was found.
    """

    file: str
    record: str
    reason: str
    detail: str


class Rejections(list[Rejection]):
    """The rejections of a file. Too many of them mean that the file has another format."""

    def append(self, item: Rejection) -> None:
        """Add a rejection. Raises DataError if there are too many."""
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
        detail: the value or fault that was found.
        mentions: texts that may name the image, if its name is unknown.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail
        self.mentions: Sequence[str] = ()


@contextlib.contextmanager
def rejecting(rejected: list[Rejection], file: str, record: str) -> Iterator[None]:
    """Put an image that is `Rejected` inside the block into a list, and go on after the block."""
    try:
        yield
    except Rejected as e:
        rejected.append(Rejection(file, record, e.reason, e.detail))


class Malformed(Rejected):
    """Raised for an object that lacks a field, or has one of the wrong type."""

    def __init__(self, detail: str) -> None:
        super().__init__("malformed_annotation", detail)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Annotations:
    """What a reader returns.

    `images` may be a generator, so that data sets of any size fit in memory. It can be iterated once; the
    other fields are complete after the last image.

    Attributes:
        categories: class name to the source's id, or to 0 if it has no ids.
        images: valid so far; boxes and files are checked when the images are read.
        rejected: images and annotations that cannot be used.
        keypoint_names: class name to the names of its keypoints, for classes that have them.
        frequencies: class name to its entry of `label_map.FREQUENCIES`, for classes that have one.
        unannotated: images without annotations, for formats that do not list all images.
        about: paths of all annotated images, rejected ones included; for the same formats.
    """

    categories: dict[str, int] = dataclasses.field(default_factory=dict)
    images: Iterable[AnnotatedImage] = ()
    rejected: list[Rejection] = dataclasses.field(default_factory=list)
    keypoint_names: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    frequencies: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unannotated: list[AnnotatedImage] = dataclasses.field(default_factory=list)
    about: set[str] = dataclasses.field(default_factory=set)


ReadSome = Callable[[Sequence[str]], Annotations]
"""Reads some annotation files. It depends on nothing but files, so that any process may call it."""

ReadAll = Callable[[ReadSome, Sequence[str]], Annotations]
"""Reads many annotation files with a `ReadSome`, perhaps in other processes, as if it read all at once."""


def read_here(read: ReadSome, paths: Sequence[str]) -> Annotations:
    """Read all files in this process."""
    return read(paths)


def path_inside(folder: str, name: str) -> str:
    """Join a file name from an annotation to the image folder.

    Only the name is checked. A link inside the folder may point outside: the folder's owner made it, not
    the annotation.

    Raises:
        Rejected: if the name is empty, absolute, a URL, leaves the folder or contains a null character.
    """
    climbs = os.path.normpath(name).split(os.sep)[0] == os.pardir
    if not name or "\0" in name or "://" in name or os.path.isabs(name) or climbs:
        raise Rejected("path_outside", f"the file name {name!r} leaves the image folder")
    return os.path.join(folder, name)


def read_annotation(path: str, longest: int = MAX_LONG_TEXT_BYTES) -> bytes:
    """Return the bytes of an image's annotation file; Rejected if missing, too large or unreadable."""
    with _rejected_if_unreadable():
        return files.read_regular(path, longest)


def check_count(count: int, what: str = "annotations of an image", most: int = MAX_OBJECTS) -> None:
    """Reject an image with more annotations (or other items) than fit in memory, as a malformed record."""
    if count > most:
        raise Rejected("malformed_record", f"expected at most {most:,} {what}, found more")


@contextlib.contextmanager
def open_annotation(path: str) -> Iterator[IO[bytes]]:
    """Open an annotation file to read it in pieces.

    Raises:
        Rejected: if the file is missing or unreadable; also raised inside the block.
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


_LONGEST_TEXT = 4_096  # as in Linux paths; a longer name would flood messages


def checked_text(value: object, what: str) -> str:
    """Return a text that UTF-8 can encode, no longer than a name may be; Rejected as a malformed record."""
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        found = f"{value[:40]!r}... of {len(value):,}"
        message = f"expected {what} in {_LONGEST_TEXT:,} characters at most, found {found}"
        raise Rejected("malformed_record", message)
    if not isinstance(value, str) or not value.isprintable() or not value.strip():
        raise Rejected("malformed_record", f"expected {what} as printable text, found {value!r:.80}")
    return value


def checked_id(text: str) -> str:
    """Return an image's id as text that UTF-8 can encode. Raises Rejected as a malformed record."""
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise Rejected("malformed_record", f"expected an id that UTF-8 can hold, found {text!a:.80}") from e
    return text
