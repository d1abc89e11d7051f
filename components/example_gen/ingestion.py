"""Converts a data set to the contents of an examples folder."""

import collections
import dataclasses
import functools
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from component_specs.example_gen import TRAIN
from components.example_gen.image_index import ImageIndex, IndexedImages, RejectedRecords
from components.example_gen.sources import InputData, Source
from detection_core.config.label_map_file import find_label_map
from detection_core.data.label_map import LabelMap
from detection_core.datasets import classes
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    Annotations,
    ReadAll,
    Rejection,
    read_here,
)
from detection_core.datasets.card import count_reasons
from detection_core.datasets.counts import Counts
from detection_core.datasets.image_files import AUTO, BACKGROUND, left_over
from detection_core.datasets.layouts import split_at, split_position
from detection_core.errors import DataError
from detection_core.garbage import no_collection

Spread = Callable[[Callable[[ReadAll], Annotations]], ReadAll]
"""Returns what reads the files of a part, given what reads the part: `file_reading.on_workers`."""

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """An annotated data set, divided into splits. No image file has been read yet.

    Attributes:
        index: of the images, on disk.
        split_names: in alphabetical order.
        label_map: made from the categories, with the keypoints and LVIS's frequencies of the records.
        keypoint_names: class name to the names of its keypoints, in the order of the label map.
        unannotated: split to images without annotations.
        background: whether these are kept as images without objects; else they are skipped.
    """

    index: ImageIndex
    split_names: Sequence[str]
    label_map: LabelMap
    keypoint_names: Mapping[str, Sequence[str]]
    unannotated: Mapping[str, int]
    background: bool

    @property
    def splits(self) -> dict[str, IndexedImages]:
        """Split name to images in storage order."""
        return {name: self.index.images(name) for name in self.split_names}

    @property
    def rejected(self) -> dict[str, RejectedRecords]:
        """Split name to rejections."""
        return {name: self.index.rejected(name) for name in self.split_names}

    @property
    def annotated(self) -> int:
        """Number of annotated images, including those in quarantine."""
        return sum(map(len, self.splits.values())) + sum(map(len, self.rejected.values()))


def read_dataset(
    data: InputData,
    label_map: LabelMap | None,
    unannotated_images: str = AUTO,
    spread: Spread = lambda _: read_here,
) -> Dataset:
    """Read the annotations of a data set.

    Args:
        data: what to read.
        label_map: to use; None makes one from the categories.
        unannotated_images: treatment of images without annotations, see `image_files.CHOICES`.
        spread: how to read parts of many files.

    Raises:
        ConfigError: for an unknown format or invalid locations.
        DataError: for missing files, unreadable annotation files, or a split without images.
    """
    background = data.reader.background if unannotated_images == AUTO else unannotated_images == BACKGROUND
    index = ImageIndex()
    with no_collection():
        read = [(source, _read_source(data, source, label_map, index, spread)) for source in data.sources()]
        unannotated = _count_unannotated(data, read, index, add=background)
        index.reject_doubles()
    faults = itertools.chain.from_iterable(map(index.rejected, data.splits.names))
    refused = next((f"{fault.file}: {fault.detail}" for fault in faults), "")
    label_map = label_map or classes.make_label_map([found.categories for _, found in read], refused)
    for names in classes.similar_names(item.name for item in label_map.items):
        _logger.warning("ingest | classes whose names differ only in case or blanks: %s", str(names)[1:-1])
    keypoint_names = classes.merge_keypoint_names([a.keypoint_names for _, a in read], label_map.ids_by_text)
    frequencies = {name: value for _, a in read for name, value in a.frequencies.items()}
    dataset = Dataset(
        index=index,
        split_names=data.splits.names,
        label_map=classes.fill_label_map(label_map, keypoint_names, frequencies),
        keypoint_names=keypoint_names,
        unannotated=unannotated,
        background=background,
    )
    for name, images in dataset.splits.items():
        if not len(images) and not len(dataset.rejected[name]):
            raise DataError(f"expected images in the split {name!r}, found none; change data.splits")
    return dataset


def _read_source(
    data: InputData, source: Source, label_map: LabelMap | None, index: ImageIndex, spread: Spread
) -> Annotations:
    if data.reader.read_named is not None:
        label_map = label_map or find_label_map(source.folder)
    names = label_map.texts_by_id if label_map else None
    read = functools.partial(data.reader.read_annotations, source.folder, source.location, names)
    found = read(spread(read))
    for image in found.images:
        if split := _split_of(data, source, image.source_id):
            index.add(split, _in_span(image, source.span))
    for rejection in found.rejected:
        if split := _split_of(data, source, rejection.record or rejection.file):
            record = f"{source.span}/{rejection.record}" if source.span else rejection.record
            index.reject(split, [rejection._replace(record=record)])
    return dataclasses.replace(found, images=(), rejected=[])


def _split_of(data: InputData, source: Source, item: str) -> str:
    """Return the split of an image's id, or "" for an image of a span that its split does not read."""
    # Assign by id alone: an image that recurs in a later span stays in its split.
    split = source.split or split_at(split_position(item), data.splits.ratios)
    return split if not source.span or source.span in data.spans.of(split) else ""


def _count_unannotated(
    data: InputData, read: Sequence[tuple[Source, Annotations]], index: ImageIndex, *, add: bool
) -> dict[str, int]:
    """Return split to number of images without annotations in any source; optionally add them."""
    counts: collections.Counter[str] = collections.Counter()
    # Images that splits share belong to training.
    in_order = sorted(read, key=lambda pair: pair[0].split != TRAIN)
    left = left_over([found.unannotated for _, found in in_order], [found.about for _, found in in_order])
    for (source, _), images in zip(in_order, left, strict=True):
        for image in images:
            if split := _split_of(data, source, image.source_id):
                counts[split] += 1
                if add:
                    index.add(split, _in_span(image, source.span))
    return dict(counts)


def _in_span(image: AnnotatedImage, span: str) -> AnnotatedImage:
    """Make ids unique over spans: each span may number its images from one."""
    return image._replace(source_id=f"{span}/{image.source_id}") if span else image


def gather(dataset: Dataset, reports: Iterable[Mapping[str, Any]]) -> dict[str, Counts]:
    """Merge the shards' reports into each split's counts and rejections; DataError without images."""
    counts = {name: Counts() for name in dataset.split_names}
    for report in reports:
        counts[report["split"]].merge(Counts(report["counts"]))
        dataset.index.reject(report["split"], [Rejection(*fields) for fields in report["rejected"]])
    for name, split in counts.items():
        split.counts["total"]["unannotated_images"] = dataset.unannotated.get(name, 0)
        if not split.counts["total"]["images"]:
            found = count_reasons(dataset.rejected[name])
            raise DataError(f"expected images in the split {name!r}, found all in quarantine: {found}")
    return counts
