"""From a data set to the contents of an examples folder."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from component_specs.example_gen import Spans
from components.example_gen.spans import NO_SPANS, sources
from detection_core.data.label_map import LabelMap
from detection_core.datasets.annotated_images import AnnotatedImage, Annotations, Rejection
from detection_core.datasets.classes import make_label_map
from detection_core.datasets.counts import Counts
from detection_core.datasets.keypoints import merge_keypoint_names
from detection_core.datasets.quarantine import count_reasons
from detection_core.datasets.readers import AnnotationReader, find_reader
from detection_core.datasets.splits import assign_splits, check_splits, is_by_ratio, order_key
from detection_core.errors import DataError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """A data set as annotated, divided into splits. No image file has been looked at.

    Attributes:
        splits: split name to images, each in the order in which they are to be stored.
        rejected: split name to what cannot be used.
        label_map: made from the categories.
        keypoint_names: class name to the names of its keypoints, in the order of the label map.
    """

    splits: Mapping[str, list[AnnotatedImage]]
    rejected: Mapping[str, list[Rejection]]
    label_map: LabelMap
    keypoint_names: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    @property
    def annotated(self) -> int:
        """Number of annotated images, including those in quarantine."""
        kept, rejected = self.splits.values(), self.rejected.values()
        return sum(len(images) for images in kept) + sum(len(rejections) for rejections in rejected)


def read_dataset(
    data_path: str,
    data_format: str,
    splits: Mapping[str, Any],
    label_map: LabelMap | None,
    spans: Spans = NO_SPANS,
) -> Dataset:
    """Read the annotations of a data set.

    Args:
        data_path: its folder.
        data_format: a key of `readers.READERS`.
        splits: see `splits.check_splits`.
        label_map: to use; None makes one from the categories.
        spans: that each split is made of, where the paths hold a span pattern.

    Raises:
        ConfigError: for a format or splits that cannot be used.
        DataError: for missing files, unreadable annotation files, and for a split without images.
    """
    reader, checked = find_reader(data_format), check_splits(splits)
    with _no_collection():
        images, rejected, found = _read_splits(reader, data_path, checked, spans)
    for name, annotated in images.items():
        if not annotated and not rejected[name]:
            raise DataError(f"expected images in the split {name!r}, found none; change data.splits")
        annotated.sort(key=lambda image: order_key(image.source_id))
    label_map = label_map or make_label_map([annotations.categories for annotations in found])
    names = merge_keypoint_names([a.keypoint_names for a in found], label_map.ids_by_text)
    return Dataset(splits=images, rejected=rejected, label_map=label_map, keypoint_names=names)


def _read_splits(
    reader: AnnotationReader, data_path: str, checked: Mapping[str, Any], spans: Spans
) -> tuple[dict[str, list[AnnotatedImage]], dict[str, list[Rejection]], list[Annotations]]:
    images: dict[str, list[AnnotatedImage]] = {name: [] for name in checked}
    rejected: dict[str, list[Rejection]] = {name: [] for name in checked}
    sources_read: list[Annotations] = []
    if is_by_ratio(checked):
        for span, path, location in sources(data_path, None, spans.all()):
            found = reader.read(path, location)
            kept, doubles = _drop_doubles(found)
            sources_read.append(dataclasses.replace(found, images=[], rejected=[]))
            faults = [*found.rejected, *doubles]
            # Assign by id alone: an image that recurs in a later span stays in its split.
            assigned = assign_splits([(image.source_id, image) for image in kept], checked)
            faulty = assign_splits([(r.record or r.file, r) for r in faults], checked)
            for name in checked:
                if not span or span in spans.of(name):
                    images[name] += [_in_span(image, span) for image in assigned[name]]
                    rejected[name] += [_rejection_in_span(r, span) for r in faulty[name]]
    else:
        for name, where in checked.items():
            for span, path, location in sources(data_path, where, spans.of(name)):
                found = reader.read(path, location)
                kept, doubles = _drop_doubles(found)
                sources_read.append(dataclasses.replace(found, images=[], rejected=[]))
                images[name] += [_in_span(image, span) for image in kept]
                rejected[name] += [_rejection_in_span(r, span) for r in (*found.rejected, *doubles)]
    return images, rejected, sources_read


def _in_span(image: AnnotatedImage, span: str) -> AnnotatedImage:
    """Make ids unique over spans: each span may number its images from one."""
    return image._replace(source_id=f"{span}/{image.source_id}") if span else image


def _rejection_in_span(rejection: Rejection, span: str) -> Rejection:
    return rejection._replace(record=f"{span}/{rejection.record}") if span else rejection


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Pause garbage collection, which would scan millions of new objects repeatedly without result."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _drop_doubles(found: Annotations) -> tuple[list[AnnotatedImage], list[Rejection]]:
    kept: dict[str, AnnotatedImage] = {}
    doubles = []
    for image in found.images:
        if kept.setdefault(image.source_id, image) is not image:
            detail = f"the id is that of {kept[image.source_id].filename!r}, which comes first"
            doubles.append(Rejection(image.filename, image.source_id, "duplicate_id", detail))
    return list(kept.values()), doubles


def gather(
    dataset: Dataset, reports: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, Counts], dict[str, list[Rejection]]]:
    """Add up what the shards report.

    Args:
        dataset: that they were made from.
        reports: in the order of the shards.

    Returns:
        Split name to counts, and split name to everything that was put aside.

    Raises:
        DataError: when nothing is left of a split.
    """
    counts = {name: Counts() for name in dataset.splits}
    rejected = defaultdict(list, {name: list(rejections) for name, rejections in dataset.rejected.items()})
    for report in reports:
        counts[report["split"]].merge(Counts(report["counts"]))
        rejected[report["split"]] += [Rejection(*fields) for fields in report["rejected"]]
    for name, split in counts.items():
        if not split.counts["total"]["images"]:
            found = count_reasons(rejected[name])
            raise DataError(f"expected images in the split {name!r}, found all in quarantine: {found}")
    return counts, dict(rejected)
