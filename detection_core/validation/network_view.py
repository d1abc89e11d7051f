"""Checks the size of boxes at the network's input, and their overlap with anchors."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from detection_core.artifacts.box_profile import AnchorMatch, AnchorMatches, Histogram, SizeGrid
from detection_core.data.resize import Resizer
from detection_core.datasets.counts import SIDES
from detection_core.ops.iou import iou
from detection_core.validation.checks import FindingList, example
from detection_core.validation.labelled_images import LabelledImage, stored_box
from detection_core.validation.uniform_sample import UniformSample

TINY_PIXELS = 4.0
"""Minimum shorter side of a box at the network's input in pixels; smaller boxes cannot be learned."""
MATCH_OVERLAP = 0.5
"""Intersection over union for a match in the Object Detection API's matchers."""
_SAMPLED = 20_000
MATCHED = 5_000
"""Number of boxes per split that are compared with all anchors."""
_PAIRS = 4_000_000
"""Boxes times anchors compared at once; each step of the computation takes 16 MB."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledBoxes:
    """Boxes drawn from a split, each with the same probability.

    Attributes:
        boxes: float32 [N, 4], normalised to the image.
        sizes: int32 [N, 2], rows and columns of the image.
        records: [N], number of the record.
        total: number of all boxes.
    """

    boxes: np.ndarray
    sizes: np.ndarray
    records: np.ndarray
    total: int


class BoxSample(UniformSample):
    """Samples boxes uniformly."""

    def __init__(self, size: int = _SAMPLED) -> None:
        super().__init__(size, columns=6)

    def add_boxes(self, image: LabelledImage) -> None:
        """Sample from the objects of an image, without crowd regions."""
        boxes = image.boxes[~image.is_crowd]
        sizes = np.broadcast_to((image.height, image.width), (len(boxes), 2))
        self.add(image.record, np.concatenate([boxes, sizes], axis=1))

    def drawn(self) -> SampledBoxes:
        """Return the sample, in the order of the records."""
        records, rows = self.kept()
        boxes, sizes = np.split(rows, [4], axis=1)
        return SampledBoxes(
            boxes=boxes.astype(np.float32), sizes=sizes.astype(np.int32), records=records, total=self.seen
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkView:
    """A network's resizer and anchors, float32 [A, 4], normalised; None without fixed anchors."""

    resizer: Resizer
    anchors: np.ndarray | None

    def resized_sizes(self, sizes: np.ndarray) -> np.ndarray:
        """Return the rows and columns of resized images without padding, float64 [N, 2]."""
        if not len(sizes):
            return np.zeros((0, 2))
        known, at = np.unique(np.maximum(sizes, 1), axis=0, return_inverse=True)
        resized = tf.map_fn(self.resizer.resized_size, tf.constant(known, tf.int32))
        return resized.numpy().astype(np.float64)[at.reshape(-1)]

    def shorter_sides(self, sample: SampledBoxes) -> np.ndarray:
        """Return the shorter side of each box at the input in pixels, float64 [N]."""
        sides = sample.boxes[:, 2:] - sample.boxes[:, :2]
        return (sides * self.resized_sizes(sample.sizes)).min(axis=1, initial=np.inf)

    def best_overlaps(self, sample: SampledBoxes) -> np.ndarray:
        """Return the intersection over union of each box with its best anchor, float [N]."""
        if self.anchors is None:
            raise ValueError("expected a detector with anchors")
        rows, columns = self.resizer.static_shape[:2]
        padded = np.asarray([rows, columns], np.float64)
        # Boxes are normalised to the image, anchors to the input, which may include padding.
        shares = np.tile(self.resized_sizes(sample.sizes) / padded, 2)
        boxes = (sample.boxes * shares).astype(np.float32)
        chunk = max(1, _PAIRS // max(1, len(self.anchors)))
        best = [
            tf.reduce_max(iou(boxes[start : start + chunk], self.anchors), axis=1).numpy()
            for start in range(0, len(boxes), chunk)
        ]
        return np.concatenate(best) if best else np.zeros(0)


def check_boxes_at_input(split: str, sample: SampledBoxes, view: NetworkView, findings: FindingList) -> None:
    """Look for boxes that the network cannot learn."""
    if not len(sample.boxes):
        return
    if findings.is_on("tiny_boxes"):
        sides = view.shorter_sides(sample)
        _add(
            "tiny_boxes",
            split,
            sides < TINY_PIXELS,
            (sample, [f"{side:.1f} pixels" for side in sides]),
            f"are less than {TINY_PIXELS:g} pixels wide or high at the network's input; make image_resizer"
            " larger, cut images into tiles, or leave them out",
            findings,
        )
    if view.anchors is None or None in view.resizer.static_shape:
        findings.not_made("unmatched_boxes", "the detector has no fixed anchors")
    elif findings.is_on("unmatched_boxes"):
        some = evenly_spaced(sample, MATCHED)
        best = view.best_overlaps(some)
        _add(
            "unmatched_boxes",
            split,
            best < MATCH_OVERLAP,
            (some, [f"best anchor at IoU {value:.2f}" for value in best]),
            f"have no anchor with an IoU of {MATCH_OVERLAP:g}; change scales and aspect ratios of the"
            " anchor_generator to the boxes' own",
            findings,
        )


def evenly_spaced(sample: SampledBoxes, count: int) -> SampledBoxes:
    """Return about `count` boxes, evenly spaced in the sample."""
    step = max(1, len(sample.boxes) // count)
    rows = slice(None, None, step)
    return dataclasses.replace(
        sample, boxes=sample.boxes[rows], sizes=sample.sizes[rows], records=sample.records[rows]
    )


def _add(
    check: str,
    split: str,
    found: np.ndarray,
    where: tuple[SampledBoxes, Sequence[str]],
    what: str,
    findings: FindingList,
) -> None:
    sample, notes = where
    records, first = np.unique(sample.records[found], return_index=True)
    places = np.flatnonzero(found)[first]
    looked_at = len(sample.boxes)
    drawn = f", looking at {looked_at:,} of {sample.total:,}" if looked_at < sample.total else ""
    fraction = float(found.mean())
    findings.add_above(
        check,
        split,
        f"{fraction:.1%} of the boxes of {split} {what}{drawn}",
        measured=fraction,
        count=int(found.sum()),
        examples=[
            example(split, int(record), notes[place], box=stored_box(sample.boxes[place]))
            for record, place in zip(records, places, strict=True)
        ],
    )


OVERLAPS = tuple(round(0.1 * step, 1) for step in range(1, 11))
"""Upper edges of the histogram of overlaps."""

_SHAPES = 200
_DIGITS = 4


def match_anchors(samples: Mapping[str, SampledBoxes], view: NetworkView) -> AnchorMatches | None:
    """Match the boxes of several splits with the anchors.

    Returns:
        None for a detector without fixed anchors.
    """
    rows, columns = view.resizer.static_shape[:2]
    if view.anchors is None or rows is None or columns is None:
        return None
    sides = view.anchors[:, 2:] - view.anchors[:, :2]
    shapes = np.unique(np.round(sides.astype(np.float64), _DIGITS), axis=0)
    shown = shapes[np.unique(np.linspace(0, len(shapes) - 1, _SHAPES).astype(int))] if len(shapes) else shapes
    return AnchorMatches(
        input_size=(rows, columns),
        anchors=len(view.anchors),
        shapes=[(float(height), float(width)) for height, width in shown],
        splits={
            split: _match(evenly_spaced(sample, MATCHED), view)
            for split, sample in samples.items()
            if len(sample.boxes)
        },
    )


def _match(sample: SampledBoxes, view: NetworkView) -> AnchorMatch:
    overlaps = np.asarray(view.best_overlaps(sample), np.float64)
    shape = np.asarray(view.resizer.static_shape[:2], np.float64)
    sides = (sample.boxes[:, 2:] - sample.boxes[:, :2]) * view.resized_sizes(sample.sizes) / shape
    matched = overlaps >= MATCH_OVERLAP
    bins = np.minimum(np.searchsorted(OVERLAPS, overlaps - 1e-6, side="left"), len(OVERLAPS) - 1)
    return AnchorMatch(
        boxes=len(overlaps),
        matched=int(matched.sum()),
        overlaps=Histogram(up_to=list(OVERLAPS), counts=np.bincount(bins, minlength=len(OVERLAPS)).tolist()),
        sizes=_grid(sides),
        unmatched=_grid(sides[~matched]),
    )


def _grid(sides: np.ndarray) -> SizeGrid:
    """Count boxes by height and width, float [N, 2], fractions of the input."""
    size = len(SIDES)
    bins = np.minimum(np.searchsorted(SIDES, sides, side="left"), size - 1)
    flat = np.bincount(bins[:, 0] * size + bins[:, 1], minlength=size * size)
    return SizeGrid(up_to=list(SIDES), counts=flat.reshape(size, size).tolist())
