"""The dataset card, dataset_card.json, and the quarantine, quarantine.jsonl, of examples.

Older cards lack some counts: a missing count is read as 0, except for a split's shards and images (None).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile, JsonLines
from detection_core.artifacts.json_values import OMIT_DEFAULT


@dataclasses.dataclass(frozen=True, kw_only=True)
class Totals:
    """Counts over images.

    Attributes:
        images: number of examples.
        empty_images: of them, those without an object.
        objects: annotated objects.
        crowd: of them, boxes around a group.
        difficult: of them, marked as difficult.
        truncated: of them, marked as truncated.
        clipped_boxes: boxes that left the image by a rounding error and were clipped.
        converted_images: images that were stored in another format than they came in.
        decoded_images: images that were decoded to see whether they can be.
        image_bytes: bytes of all images.
        turned_images: images that were stored upright, turned as their EXIF orientation says.
        annotated_as_stored: of them, those whose annotations were made for the picture as it was stored, and
            were turned with it.
        passed_through: examples that are, byte for byte, the records that the data set came in.
        unannotated_images: image files that no annotation is about; `DatasetCard.unannotated` tells whether
            they are among `images`.
    """

    images: int = 0
    empty_images: int = 0
    objects: int = 0
    crowd: int = 0
    difficult: int = 0
    truncated: int = 0
    clipped_boxes: int = 0
    converted_images: int = 0
    decoded_images: int = 0
    image_bytes: int = 0
    turned_images: int = dataclasses.field(default=0, metadata=OMIT_DEFAULT)
    annotated_as_stored: int = dataclasses.field(default=0, metadata=OMIT_DEFAULT)
    passed_through: int = dataclasses.field(default=0, metadata=OMIT_DEFAULT)
    unannotated_images: int = dataclasses.field(default=0, metadata=OMIT_DEFAULT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Range:
    """What a measure of images ranges over.

    Attributes:
        min: least value.
        mean: mean value.
        max: greatest value.
    """

    min: float
    mean: float
    max: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoxAreas:
    """Objects by COCO's classes of size.

    Attributes:
        small: objects of less than 32 x 32 pixels.
        medium: objects of less than 96 x 96 pixels.
        large: all others.
    """

    small: int = 0
    medium: int = 0
    large: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoxSides:
    """A histogram of box sizes: the root of the box's area as a fraction of that of the image's.

    Attributes:
        up_to: upper edges of the bins.
        objects: in each bin.
    """

    up_to: list[float]
    objects: list[int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitCard:
    """A split in numbers.

    Attributes:
        shards: TFRecord files; None where the card does not say.
        images: number of examples; None where the card does not say.
        empty_images: as in `Totals`.
        objects: as in `Totals`.
        crowd: as in `Totals`.
        difficult: as in `Totals`.
        truncated: as in `Totals`.
        clipped_boxes: as in `Totals`.
        converted_images: as in `Totals`.
        decoded_images: as in `Totals`.
        image_bytes: as in `Totals`.
        turned_images: as in `Totals`.
        annotated_as_stored: as in `Totals`.
        passed_through: as in `Totals`.
        unannotated_images: as in `Totals`.
        formats: image format to images.
        classes: class name to objects.
        box_areas_px: objects by size in pixels.
        box_sides_of_image: objects by size as a fraction of the image.
        height: of the images, pixels.
        objects_per_image: as the name says.
        width: of the images, pixels.
        quarantined: reason to number of rejected annotations, the most frequent first.
    """

    shards: int | None = None
    images: int | None = None
    empty_images: int = 0
    objects: int = 0
    crowd: int = 0
    difficult: int = 0
    truncated: int = 0
    clipped_boxes: int = 0
    converted_images: int = 0
    decoded_images: int = 0
    image_bytes: int = 0
    turned_images: int = dataclasses.field(default=0, metadata=OMIT_DEFAULT)
    annotated_as_stored: int = dataclasses.field(default=0, metadata=OMIT_DEFAULT)
    passed_through: int = dataclasses.field(default=0, metadata=OMIT_DEFAULT)
    unannotated_images: int = dataclasses.field(default=0, metadata=OMIT_DEFAULT)
    formats: Mapping[str, int] = dataclasses.field(default_factory=dict)
    classes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    box_areas_px: BoxAreas | None = None
    box_sides_of_image: BoxSides | None = None
    height: Range | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    objects_per_image: Range | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    width: Range | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    quarantined: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassCard:
    """A class in numbers.

    Attributes:
        id: as in the label map, from 1.
        name: of the class.
        objects: in all splits.
    """

    id: int = 0
    name: str
    objects: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodingCard:
    """How much was decoded.

    Attributes:
        images: decoded ones.
        fraction: of all images.
        decoders: names of the libraries that decoded them.
    """

    images: int = 0
    fraction: float = 0.0
    decoders: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuarantineCard:
    """The quarantine in numbers.

    Attributes:
        records: number of rejected annotations.
        fraction: of all annotated images.
        reasons: reason to count, the most frequent first.
    """

    records: int = 0
    fraction: float = 0.0
    reasons: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetCard:
    """What dataset_card.json holds. The content does not depend on time, path or machine.

    Attributes:
        format: of the source, such as `coco`.
        classes: in the order of the label map.
        splits: name to numbers.
        total: over all splits.
        decoding: how much was decoded.
        quarantine: what was put aside.
        images_in_two_splits: images whose bytes occur in more than one split.
        spans: split to the spans that it is made of; empty for data without spans.
        unannotated: what images are that no annotation is about: `background`, or left out, `leave_out`;
            empty where there are none.
    """

    format: str = ""
    classes: list[ClassCard] = dataclasses.field(default_factory=list)
    splits: Mapping[str, SplitCard] = dataclasses.field(default_factory=dict)
    total: Totals = Totals()
    decoding: DecodingCard = dataclasses.field(default_factory=DecodingCard)
    quarantine: QuarantineCard = dataclasses.field(default_factory=QuarantineCard)
    images_in_two_splits: int = 0
    spans: Mapping[str, list[str]] = dataclasses.field(default_factory=dict, metadata=OMIT_DEFAULT)
    unannotated: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)


CARD = JsonFile(
    name="dataset_card.json", content=DatasetCard, writer="ExampleGen", remedy="make the examples again"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuarantinedEntry:
    """A rejected image or annotation.

    Attributes:
        split: that it belongs to.
        file: image or annotation file, relative to its folder.
        record: id of the image or annotation; "" where there is none.
        reason: a key of `detection_core.datasets.annotated_images.REASONS`.
        detail: what was found.
    """

    split: str = ""
    file: str = ""
    record: str = ""
    reason: str = ""
    detail: str = ""


QUARANTINE = JsonLines(
    name="quarantine.jsonl",
    content=QuarantinedEntry,
    writer="ExampleGen",
    remedy="make the examples again",
)
