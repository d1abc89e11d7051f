"""One pass over the examples of a split, which gathers the input of all checks.

Image files are decoded and hashed in threads.
"""

import array
import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.artifacts.box_profile import BoxProfile
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
from detection_core.validation.box_statistics import SampleCounter
from detection_core.validation.checks import EXAMPLES_LISTED, TRAIN, FindingList, example
from detection_core.validation.duplicates import AnnotationChecker, Digests, short_digest
from detection_core.validation.labelled_images import LabelledImage, folder_of, span_of
from detection_core.validation.network_view import BoxSample, SampledBoxes
from detection_core.validation.sample_pictures import SamplePictures

MOST_FOLDERS = 50
"""Maximum number of folders to compare; with more, a folder is a video or a day, not a person."""


_TFDV = "detection_core.optional.tfdv"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PassOptions:
    """What to gather.

    Attributes:
        classes: names of the label map.
        spans: of the examples, oldest first.
        decoding: selects the images to decode.
        hashes: hash every image, to find near-duplicates.
        pictures: draws samples.
    """

    classes: Sequence[str]
    spans: tuple[str, ...]
    decoding: Decoding
    hashes: bool
    pictures: SamplePictures


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

    def statistics(self) -> dict[str, SampleStatistics]:
        """Return folder to statistics; empty for one folder or too many."""
        counters = self._counters or {}
        if len(counters) < 2:
            return {}
        return {folder: counters[folder].statistics() for folder in sorted(counters)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitPass:
    """The result of a pass over a split.

    Attributes:
        statistics: of its images.
        spans: of training images by span.
        features: DatasetFeatureStatisticsList of its columns; None without the capability `tfdv`.
        digests: of its image files.
        hashes: of its images; empty if not requested.
        files: results of decoding.
        annotations: compares its boxes with each other.
        boxes: a sample of them.
        profile: all boxes, for charts.
        objects: number of objects by class.
    """

    statistics: SampleStatistics
    spans: dict[str, SampleStatistics]
    features: Any
    digests: Digests
    hashes: Sequence[bytes | None]
    files: "ImageFiles"
    annotations: AnnotationChecker
    boxes: SampledBoxes
    profile: BoxProfile
    objects: "ObjectCounter"


def pass_over(
    split: str,
    images: Iterable[LabelledImage],
    count: int,
    options: PassOptions,
    folders: FolderCounters,
    progress: Progress,
) -> SplitPass:
    """Read every example of a split once; `folders` counts over all splits; DataError if damaged."""
    counter, annotations = SampleCounter(options.classes), AnnotationChecker(options.classes)
    digests = array.array("Q")  # eight bytes an image
    spans = {span: SampleCounter(options.classes) for span in options.spans if split == TRAIN}
    sample, profile, objects = BoxSample(), BoxCounter(), ObjectCounter()
    features = capability(_TFDV).FeatureCounter() if has_capability(_TFDV) else None
    files = ImageFiles(count, options.decoding, hashes=options.hashes)
    for image in files.looked_at(images):
        is_tile = TILE in image.features
        if not is_tile:  # splits, spans and folders are compared by their whole images
            counter.add(image)
            folders.add(image)
        if features is not None:
            features.add(image.features)
        digests.append(short_digest(image.sha256))
        annotations.add(image)
        sample.add(image)
        profile.add(list(_pixel_boxes(image)), image.width, image.height)
        objects.add(image)
        options.pictures.add(split, image)
        if spans and not is_tile and (span := span_of(image, options.spans)):
            spans[span].add(image)
        progress.advance()
    return SplitPass(
        statistics=counter.statistics(),
        spans={span: of_span.statistics() for span, of_span in spans.items()},
        features=None if features is None else features.statistics(),
        digests=digests,
        hashes=files.hashes if options.hashes else (),
        files=files,
        annotations=annotations,
        boxes=sample.drawn(),
        profile=profile.profile(),
        objects=objects,
    )


def _pixel_boxes(image: LabelledImage) -> Iterator[tuple[float, float, float, float]]:
    # Records of other tools may hold NaN or infinity, or lack the size of the image.
    kept = ~image.is_crowd & np.isfinite(image.boxes).all(axis=1) & (image.width * image.height > 0)
    for ymin, xmin, ymax, xmax in image.boxes[kept].tolist():
        yield xmin * image.width, ymin * image.height, xmax * image.width, ymax * image.height


class ObjectCounter:
    """Counts the objects of a split including crowd regions, as in a dataset card."""

    def __init__(self) -> None:
        self._images = self._empty = 0
        self._classes: Counter[int] = Counter()

    def add(self, image: LabelledImage) -> None:
        """Count an image."""
        self._images += 1
        self._empty += not len(image.classes)
        self._classes.update(image.classes.tolist())

    def card(self, label_map: LabelMap) -> SplitCard:
        """Return the counts as a card."""
        return SplitCard(
            images=self._images,
            empty_images=self._empty,
            objects=self._classes.total(),
            classes={name: self._classes[label] for label, name in enumerate(label_map.names)},
        )


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
        self.hashes: Any = near.HashList() if near else []
        self.decoded = 0

    def looked_at(self, images: Iterable[LabelledImage]) -> Iterator[LabelledImage]:
        """Yield the images unchanged, after their files were looked at in threads."""
        threads = min(16, os.cpu_count() or 1)
        for image, found in done_ahead(images, self._look, lambda _: 1, budget=2 * threads, threads=threads):
            self.decoded += self._hash_file is not None or self._is_chosen(image)
            self.hashes.append(None if isinstance(found, ImageFault) else found)
            if isinstance(found, ImageFault):
                self._faulty += 1
                if len(self._faults) < EXAMPLES_LISTED:
                    self._faults.append(example("", image.record, found.message))
            yield image

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
