"""One pass over the examples, which gathers the input of all checks.

Several processes can read parts of the examples: merged passes give the same result. Image files are decoded
and hashed in threads.
"""

import array
import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from detection_core.artifacts.data_findings import FoundExample
from detection_core.artifacts.data_statistics import SampleStatistics
from detection_core.artifacts.dataset_card import ClassCard, DatasetCard, SplitCard, Totals
from detection_core.capabilities import capability, has_capability
from detection_core.data.encode import TILE
from detection_core.data.image_header import ImageFault
from detection_core.data.label_map import LabelMap
from detection_core.data.records import done_ahead
from detection_core.datasets.counts import BoxCounter
from detection_core.datasets.encoding import Decoding
from detection_core.progress import Progress
from detection_core.storage.shard_cache import RecordFile
from detection_core.validation.box_statistics import SampleCounter
from detection_core.validation.checks import EXAMPLES_LISTED, TRAIN, FindingList, example
from detection_core.validation.duplicates import AnnotationChecker, objects_digest, short_digest
from detection_core.validation.labelled_images import LabelledImage, folder_of, read_split, span_of
from detection_core.validation.network_view import BoxSample
from detection_core.validation.sample_pictures import SamplePictures

MOST_FOLDERS = 50
"""Maximum number of folders to compare; with more, a folder is a video or a day, not a person."""


_TFDV = "detection_core.optional.tfdv"


class RecordPart(NamedTuple):
    """A file of a split, and the number of its first record in the split."""

    split: str
    file: RecordFile
    start: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class PassOptions:
    """What to gather.

    Attributes:
        label_map: of the examples.
        images: number of images of each split.
        spans: of the examples, oldest first.
        decoding: selects the images to decode.
        hashes: hash every image, to find near-duplicates.
    """

    label_map: LabelMap
    images: Mapping[str, int]
    spans: tuple[str, ...]
    decoding: Decoding
    hashes: bool


class FolderCounters:
    """Counts the images of each folder, unless there are too many folders."""

    def __init__(self, classes: Sequence[str]) -> None:
        self._classes = classes
        self._counters: dict[str, SampleCounter] | None = {}

    def add(self, image: LabelledImage) -> None:
        """Count an image."""
        if self._counters is None:
            return
        folder = folder_of(image)
        if folder not in self._counters and len(self._counters) == MOST_FOLDERS:
            self._counters = None
            return
        self._counters.setdefault(folder, SampleCounter(self._classes)).add(image)

    def merge(self, other: "FolderCounters") -> None:
        """Add the counts of other images."""
        theirs, mine = other._counters, self._counters
        if theirs is None or mine is None or len(mine.keys() | theirs.keys()) > MOST_FOLDERS:
            self._counters = None
            return
        for folder, counter in theirs.items():
            mine.setdefault(folder, SampleCounter(self._classes)).merge(counter)

    def statistics(self) -> dict[str, SampleStatistics]:
        """Return folder to statistics; empty for one folder or too many."""
        counters = self._counters or {}
        if len(counters) < 2:
            return {}
        return {folder: counters[folder].statistics() for folder in sorted(counters)}


class SplitPass:
    """What a pass over records of a split gathers; passes over its parts add up in any order.

    Attributes:
        images: statistics of its images.
        spans: of training images by span.
        features: of its columns; None without the capability `tfdv`.
        files: results of decoding.
        annotations: compares its boxes with each other.
        boxes: a sample of them.
        profile: all boxes, for charts.
    """

    def __init__(self, split: str, options: PassOptions) -> None:
        classes = options.label_map.names
        self._options = options
        self.images = SampleCounter(classes)
        self.spans = {span: SampleCounter(classes) for span in options.spans if split == TRAIN}
        self.features: Any = capability(_TFDV).FeatureCounter() if has_capability(_TFDV) else None
        self.files = ImageFiles(options.images[split], options.decoding, hashes=options.hashes)
        self.annotations = AnnotationChecker(classes)
        self.boxes, self.profile = BoxSample(), BoxCounter()
        # Objects by class, with crowd regions, and images without any.
        self._objects, self._empty = Counter[int](), 0
        self._by_record: dict[int, tuple[Any, ...]] = {}

    def add(self, images: Iterable[LabelledImage], start: int) -> Iterator[LabelledImage]:
        """Yield the images of a part, given the number of its first record, and count them."""
        digests, objects, hashes = self._columns()
        for image, found in self.files.looked_at(images):
            if TILE not in image.features:  # splits and spans are compared by their whole images
                self.images.add(image)
                if span := span_of(image, tuple(self.spans)):
                    self.spans[span].add(image)
            if self.features is not None:
                self.features.add(image.features, image.record)
            self.annotations.add(image)
            self.boxes.add_boxes(image)
            self.profile.add(list(_pixel_boxes(image)), image.width, image.height)
            self._objects.update(image.classes.tolist())
            self._empty += not len(image.classes)
            digests.append(short_digest(image.sha256))
            objects.append(objects_digest(image))
            if self._options.hashes:
                hashes.append(found)
            yield image
        if digests:  # the next part of an empty one has the same start
            self._by_record[start] = digests, objects, hashes

    def _columns(self) -> tuple[Any, Any, Any]:
        return array.array("Q"), array.array("Q"), self.files.new_hashes()

    def merge(self, other: "SplitPass") -> None:
        """Add what was gathered from other records of the split."""
        for mine, theirs in zip(self._counters(), other._counters(), strict=True):
            mine.merge(theirs)
        self._objects.update(other._objects)
        self._empty += other._empty
        self._by_record |= other._by_record

    def _counters(self) -> list[Any]:
        counters = [self.images, self.files, self.annotations, self.boxes, self.profile, self.features]
        return [*filter(None, counters), *self.spans.values()]

    def card(self) -> SplitCard:
        """Count the images and objects, as in a dataset card."""
        classes = self._options.label_map.names
        return SplitCard(
            images=self.annotations.images,
            empty_images=self._empty,
            objects=self._objects.total(),
            classes={name: self._objects[label] for label, name in enumerate(classes)},
        )

    def by_record(self) -> tuple[Any, Any, Any]:
        """Return the digests of all images and of their objects, and the hashes; empty if not requested."""
        joined = self._columns()
        for _, parts in sorted(self._by_record.items()):
            for whole, part in zip(joined, parts, strict=True):
                whole += part  # noqa: PLW2901 (in place)
        return joined


class DataPass:
    """Gathers the input of all checks from the records of all splits; passes over parts can be merged."""

    def __init__(self, options: PassOptions) -> None:
        self._options = options
        self.splits: dict[str, SplitPass] = {}
        self.folders = FolderCounters(options.label_map.names)
        self.pictures = SamplePictures(options.label_map.names)

    def read(self, part: RecordPart, on_image: Callable[[], None] = lambda: None) -> "DataPass":
        """Read every example of a part once; DataError if damaged."""
        counter = self.splits.setdefault(part.split, SplitPass(part.split, self._options))
        images = read_split([part.file], self._options.label_map, part.start)
        for image in counter.add(images, part.start):
            if TILE not in image.features:
                self.folders.add(image)
            self.pictures.add(part.split, image)
            on_image()
        return self

    def merge(self, other: "DataPass") -> "DataPass":
        """Add what was gathered from other records."""
        for split, counter in other.splits.items():
            self.splits.setdefault(split, SplitPass(split, self._options)).merge(counter)
        self.folders.merge(other.folders)
        self.pictures.merge(other.pictures)
        return self


def read_all(parts: Sequence[RecordPart], options: PassOptions) -> DataPass:
    """Read every example once in this process."""
    found = DataPass(options)
    with Progress("validate", total=sum(options.images.values()), unit="image") as progress:
        for part in parts:
            found.read(part, progress.advance)
    return found


def _pixel_boxes(image: LabelledImage) -> Iterator[tuple[float, float, float, float]]:
    # Records of other tools may hold NaN or infinity, or lack the size of the image.
    kept = ~image.is_crowd & np.isfinite(image.boxes).all(axis=1) & (image.width * image.height > 0)
    for ymin, xmin, ymax, xmax in image.boxes[kept].tolist():
        yield xmin * image.width, ymin * image.height, xmax * image.width, ymax * image.height


def counted_card(label_map: LabelMap, splits: Mapping[str, SplitCard]) -> DatasetCard:
    """Return the card of a data set."""
    return DatasetCard(
        format="TFRecord",
        classes=[
            ClassCard(id=label + 1, name=name, objects=sum(split.classes[name] for split in splits.values()))
            for label, name in enumerate(label_map.names)
        ],
        splits=splits,
        total=Totals(
            images=sum(split.images for split in splits.values()),
            empty_images=sum(split.empty_images for split in splits.values()),
            objects=sum(split.objects for split in splits.values()),
        ),
    )


class ImageFiles:
    """Checks the image files of a split, in the order of its records.

    `decoding` selects the images to decode in full. `hashes` hashes every image, which decodes it, JPEG files
    at reduced size.
    """

    def __init__(self, images: int, decoding: Decoding, *, hashes: bool) -> None:
        self._images = images
        self._decoding = decoding
        self._faults: list[FoundExample] = []
        self._faulty = 0
        near = capability("detection_core.optional.near_duplicates") if hashes else None
        self._hash_file: Callable[[bytes], bytes | None] | None = near.hash_image_file if near else None
        self.new_hashes: Callable[[], Any] = near.HashList if near else list
        self.decoded = 0

    def merge(self, other: "ImageFiles") -> None:
        """Add what was found in other records."""
        self.decoded += other.decoded
        self._faulty += other._faulty
        self._faults = sorted([*self._faults, *other._faults], key=lambda fault: fault.record)
        del self._faults[EXAMPLES_LISTED:]

    def looked_at(self, images: Iterable[LabelledImage]) -> Iterator[tuple[LabelledImage, bytes | None]]:
        """Yield the images with their hashes, after their files were looked at in threads."""
        threads = min(16, os.cpu_count() or 1)
        for image, found in done_ahead(images, self._look, lambda _: 1, budget=2 * threads, threads=threads):
            self.decoded += self._hash_file is not None or self._is_chosen(image)
            if isinstance(found, ImageFault):
                self._faulty += 1
                if len(self._faults) < EXAMPLES_LISTED:
                    self._faults.append(example("", image.record, found.message))
            yield image, None if isinstance(found, ImageFault) else found

    def _is_chosen(self, image: LabelledImage) -> bool:
        """Return whether an image is decoded in full."""
        return self._decoding.images_in(image.record, image.record + 1, self._images) > 0

    def _look(self, image: LabelledImage) -> tuple[LabelledImage, bytes | ImageFault | None]:
        """Return an image and its hash, None without hashes, or its fault."""
        try:
            if self._is_chosen(image):
                self._decoding.check(image.encoded)
            return image, self._hash_file(image.encoded) if self._hash_file else None
        except ImageFault as fault:
            return image, fault

    def report(self, split: str, findings: FindingList) -> None:
        """Add the findings."""
        if not self.decoded:
            findings.not_made("undecodable_images", "no image was decoded")
            return
        what = f"decoded images of {split} are damaged; training leaves them out: save them again"
        examples = [dataclasses.replace(fault, split=split) for fault in self._faults]
        findings.add_share("undecodable_images", split, self._faulty, self.decoded, what, examples=examples)
