"""The dataset card (dataset_card.json) and the quarantine (quarantine.jsonl) of examples.

A missing count is read as 0.
"""

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile, JsonLines
from detection_core.artifacts.json_values import OMIT_DEFAULT


@dataclasses.dataclass(frozen=True, kw_only=True)
class Totals:
    """Counts over images.

    Attributes:
        images: number of examples.
        empty_images: images without an object.
        objects: annotated objects.
        crowd: objects that are boxes around a group.
        difficult: objects marked as difficult.
        truncated: objects marked as truncated.
        clipped_boxes: boxes clipped because a rounding error put them outside the image.
        converted_images: images stored in another format than their source.
        decoded_images: images decoded as a check.
        image_bytes: bytes of all images.
        turned_images: images rotated upright by their EXIF orientation.
        annotated_as_stored: rotated images whose annotations refer to the stored orientation and were
            rotated, too.
        passed_through: examples copied byte for byte from the source's records.
        unannotated_images: image files without an annotation; `DatasetCard.unannotated` says whether `images`
            includes them.
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
    """Range of a quantity over images.

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
    """Objects by COCO's size classes.

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
    """A histogram of box sizes: sqrt(box area / image area).

    Attributes:
        up_to: upper edges of the bins.
        objects: number of objects in each bin.
    """

    up_to: list[float]
    objects: list[int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitCard(Totals):
    """Counts and ranges of a split.

    Attributes:
        shards: number of TFRecord files; None if unknown.
        formats: image format to number of images.
        classes: class name to number of objects.
        box_areas_px: objects by size in pixels.
        box_sides_of_image: objects by size as a fraction of the image.
        height: image height, pixels.
        objects_per_image: number of objects in an image.
        width: image width, pixels.
        quarantined: reason to number of rejected annotations, the most frequent first.
    """

    shards: int | None = None
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
    """Counts of a class.

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
    """Decoded images.

    Attributes:
        images: number of decoded images.
        fraction: of all images.
        decoders: names of the libraries that decoded them.
    """

    images: int = 0
    fraction: float = 0.0
    decoders: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuarantineCard:
    """Counts of the quarantine.

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
    """The content of dataset_card.json, independent of time, path and machine.

    Attributes:
        format: of the source, such as `coco`.
        classes: in the order of the label map.
        splits: name to numbers.
        total: over all splits.
        decoding: counts of decoded images.
        quarantine: counts of rejected annotations.
        images_in_two_splits: images whose bytes occur in more than one split.
        spans: split to its spans; empty for data without spans.
        unannotated: treatment of images without an annotation: `background` or `leave_out`; empty if there
            are none.
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
        split: its split.
        file: image or annotation file, relative to its folder.
        record: id of the image or annotation; "" if there is none.
        reason: a key of `detection_core.datasets.annotated_images.REASONS`.
        detail: what was found.
    """

    split: str = ""
    file: str = ""
    record: str = ""
    reason: str = ""
    detail: str = ""


QUARANTINE = JsonLines(
    name="quarantine.jsonl", content=QuarantinedEntry, writer="ExampleGen", remedy="make the examples again"
)
