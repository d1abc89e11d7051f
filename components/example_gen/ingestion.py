"""Converts a data set to the contents of an examples folder."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from component_specs.example_gen import TRAIN, Spans
from components.example_gen.image_index import ImageIndex, IndexedImages, RejectedRecords
from components.example_gen.spans import NO_SPANS, sources
from detection_core.config.label_map_file import find_label_map
from detection_core.data.label_map import LabelMap
from detection_core.datasets.annotated_images import AnnotatedImage, Annotations, Rejection
from detection_core.datasets.classes import make_label_map, merge_keypoint_names
from detection_core.datasets.counts import Counts
from detection_core.datasets.image_files import AUTO, BACKGROUND, left_over
from detection_core.datasets.quarantine import count_reasons
from detection_core.datasets.readers import AnnotationReader, find_reader
from detection_core.datasets.splits import check_splits, is_by_ratio, split_at, split_position
from detection_core.errors import DataError
from detection_core.garbage import no_collection


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """An annotated data set, divided into splits. No image file has been read yet.

    Attributes:
        index: of the images, on disk.
        split_names: in alphabetical order.
        label_map: made from the categories.
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
        return sum(map(len, (*self.splits.values(), *self.rejected.values())))


def read_dataset(
    data_path: str,
    data_format: str,
    splits: Mapping[str, Any],
    label_map: LabelMap | None,
    spans: Spans = NO_SPANS,
    unannotated_images: str = AUTO,
) -> Dataset:
    """Read the annotations of a data set.

    Args:
        data_path: its folder.
        data_format: a key of `readers.READERS`.
        splits: see `splits.check_splits`.
        label_map: to use; None makes one from the categories.
        spans: of each split, if the paths contain a span pattern.
        unannotated_images: treatment of images without annotations, see `image_files.CHOICES`.

    Raises:
        ConfigError: for an invalid format or invalid splits.
        DataError: for missing files, unreadable annotation files, or a split without images.
    """
    reader, checked = find_reader(data_format), check_splits(splits)
    background = reader.background if unannotated_images == AUTO else unannotated_images == BACKGROUND
    index = ImageIndex()
    reading = _Reading(reader, label_map, index)
    with no_collection():
        found = _read_splits(reading, data_path, checked, spans)
        unannotated = reading.sort_out(add=background)
        index.reject_doubles()
    faults = itertools.chain.from_iterable(map(index.rejected, checked))
    refused = next((f"{fault.file}: {fault.detail}" for fault in faults), "")
    label_map = label_map or make_label_map([annotations.categories for annotations in found], refused)
    names = merge_keypoint_names([a.keypoint_names for a in found], label_map.ids_by_text)
    dataset = Dataset(
        index=index,
        split_names=list(checked),
        label_map=label_map,
        keypoint_names=names,
        unannotated=unannotated,
        background=background,
    )
    for name, images in dataset.splits.items():
        if not len(images) and not len(dataset.rejected[name]):
            raise DataError(f"expected images in the split {name!r}, found none; change data.splits")
    return dataset


class _Part(NamedTuple):
    """A part of a data set: its span, a function from id to split, unannotated images and annotated paths."""

    span: str
    split_of: Callable[[str], str]
    unannotated: Sequence[AnnotatedImage]
    about: Collection[str]


class _Reading:
    """Reads the parts of a data set into an index."""

    def __init__(self, reader: AnnotationReader, label_map: LabelMap | None, index: ImageIndex) -> None:
        self._reader, self._label_map, self._index = reader, label_map, index
        self._parts: list[_Part] = []

    def read(self, path: str, location: Any, span: str, split_of: Callable[[str], str]) -> Annotations:
        """Read a part; `split_of` returns the split of an id, "" to skip it."""
        found = self._reader.read_annotations(path, location, self._class_names(path))
        for image in found.images:
            if split := split_of(image.source_id):
                self._index.add(split, _in_span(image, span))
        for rejection in found.rejected:
            if split := split_of(rejection.record or rejection.file):
                self._index.reject(split, [_rejection_in_span(rejection, span)])
        self._parts.append(_Part(span, split_of, found.unannotated, found.about))
        return dataclasses.replace(found, images=(), rejected=[], unannotated=[], about=set())

    def sort_out(self, *, add: bool) -> dict[str, int]:
        """Return split to number of images without annotations in any part; optionally add them."""
        counts: collections.Counter[str] = collections.Counter()
        # Images that splits share belong to training.
        parts = sorted(self._parts, key=lambda part: part.split_of("") != TRAIN)
        left = left_over([part.unannotated for part in parts], [part.about for part in parts])
        for part, images in zip(parts, left, strict=True):
            for image in images:
                if split := part.split_of(image.source_id):
                    counts[split] += 1
                    if add:
                        self._index.add(split, _in_span(image, part.span))
        return dict(counts)

    def _class_names(self, path: str) -> Mapping[int, str] | None:
        if self._reader.read_named is None:
            return None
        label_map = self._label_map or find_label_map(path)
        return label_map.texts_by_id if label_map else None


def _read_splits(
    reading: _Reading, data_path: str, checked: Mapping[str, Any], spans: Spans
) -> list[Annotations]:
    """Fill the index, and return the remaining results."""
    read: list[Annotations] = []

    def read_one(path: str, location: Any, span: str, split_of: Callable[[str], str]) -> None:
        def taken(item: str) -> str:
            split = split_of(item)
            return split if not span or span in spans.of(split) else ""

        read.append(reading.read(path, location, span, taken))

    if is_by_ratio(checked):
        for span, path, location in sources(data_path, None, spans.all()):
            # Assign by id alone: an image that recurs in a later span stays in its split.
            read_one(path, location, span, lambda item: split_at(split_position(item), checked))
    else:
        for name, where in checked.items():
            for span, path, location in sources(data_path, where, spans.of(name)):
                read_one(path, location, span, lambda _, name=name: name)  # type: ignore[misc]
    return read


def _in_span(image: AnnotatedImage, span: str) -> AnnotatedImage:
    """Make ids unique over spans: each span may number its images from one."""
    return image._replace(source_id=f"{span}/{image.source_id}") if span else image


def _rejection_in_span(rejection: Rejection, span: str) -> Rejection:
    return rejection._replace(record=f"{span}/{rejection.record}") if span else rejection


def gather(dataset: Dataset, reports: Iterable[Mapping[str, Any]]) -> dict[str, Counts]:
    """Merge the shards' reports into counts, and record their rejections.

    Returns:
        Split name to counts.

    Raises:
        DataError: if a split has no images left.
    """
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
