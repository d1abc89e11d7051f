"""Choose anchors that fit the boxes of a data set, for any generator. Nothing here imports TensorFlow.

The aim is a similar anchor for most boxes, with few anchors: Redmon and Farhadi, 2017, section 2,
https://arxiv.org/abs/1612.08242. Coverage is measured without generating all anchors. A box and an anchor
overlap most where their centres are nearest, so only one location per feature map counts.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Size = tuple[float, float]
"""Height and width of one anchor, in the unit of its stride."""
REDUCED_SCALE = 0.1
"""Scale of the first of three anchors in SSD's reduced lowest layer: small for every min_scale."""
MATCHED = 0.5
"""Usual lowest intersection over union at which an anchor matches a box."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorGrid:
    """The anchors of each cell of a feature map, pixels of the network's input.

    Attributes:
        stride: (y, x) between cells.
        offset: (y, x) of the first centre.
        sizes: height and width of each anchor of a cell.
    """

    stride: tuple[float, float]
    offset: tuple[float, float]
    sizes: Sequence[Size]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorMap(AnchorGrid):
    """The anchors of one feature map, whose shape is rows and columns."""

    shape: tuple[int, int]

    @property
    def count(self) -> int:
        """Number of anchors."""
        return self.shape[0] * self.shape[1] * len(self.sizes)


def best_overlaps(boxes: np.ndarray, maps: Sequence[AnchorMap]) -> np.ndarray:
    """Return float64 [N], the intersection over union of each box with its most similar anchor.

    Boxes are float [N, 4] (ymin, xmin, ymax, xmax), pixels of the network's input; one without area has 0.
    """
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
    best = np.zeros(len(boxes))
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 0.0)
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    for anchors in maps:
        last = np.asarray(anchors.shape) - 1
        cells = np.clip(np.round((centres - anchors.offset) / anchors.stride), 0, last)
        away = np.abs(centres - (cells * anchors.stride + anchors.offset))
        for size in anchors.sizes:
            best = np.maximum(best, _overlaps(sides, np.asarray(size), away))
    return best


def _overlaps(sides: np.ndarray, size: np.ndarray, away: np.ndarray) -> np.ndarray:
    """Return the IoU of boxes with an anchor at centre distance `away`, all [N, 2] or [2]."""
    common = np.minimum(np.minimum(sides, size), (sides + size) / 2 - away)
    intersection = np.prod(np.maximum(common, 0.0), axis=1)
    union = np.prod(sides, axis=1) + np.prod(size) - intersection
    return np.where(union > 0, intersection / np.maximum(union, 1e-12), 0.0)


def matched_fraction(overlaps: np.ndarray) -> float:
    """Return the fraction of boxes that an anchor matches; 0 without boxes."""
    return float(np.mean(overlaps >= MATCHED)) if len(overlaps) else 0.0


def aspect_clusters(boxes: np.ndarray, count: int) -> tuple[float, ...]:
    """Cluster the aspect ratios of boxes.

    Dimension clusters of YOLOv2, https://arxiv.org/abs/1612.08242, on boxes of equal area: k-means with the
    distance 1 - IoU. For shapes of equal area it depends only on the quotient of their aspect ratios.

    Args:
        boxes: float [N, 4] (ymin, xmin, ymax, xmax), pixels of the network's input.
        count: largest number of clusters.

    Returns:
        Width over height, rising, with two digits; fewer where clusters coincide, none without boxes.
    """
    sides = (boxes[:, 2:] - boxes[:, :2])[np.all(boxes[:, 2:] > boxes[:, :2], axis=1)]
    if not len(sides):
        return ()
    logs = np.sort(np.log(sides[:, 1] / sides[:, 0]))
    centres = np.quantile(logs, (np.arange(count) + 0.5) / count)
    for _ in range(_ROUNDS):
        nearest = np.argmin(np.abs(logs[:, np.newaxis] - centres), axis=1)
        groups = [logs[nearest == index] for index in range(len(centres))]
        # The median, not the mean, as a few boxes of extreme ratios would shift the mean.
        moved = np.array([np.median(group) for group in groups if len(group)])
        if len(moved) == len(centres) and np.allclose(moved, centres):
            break
        centres = moved
    return tuple(sorted({float(f"{np.exp(centre):.2g}") for centre in centres}))


SIDES = tuple(float(f"{2 ** (step / 6):.2g}") for step in range(19))
"""Tried sides of the smallest anchor, in cells: from 1 to 8."""
_ROUNDS = 50  # most k-means iterations
_FEW = 3_000  # number of boxes for trying candidates
_WORTH = 0.004  # fraction of all boxes that a further anchor per location must match
_BESIDE = 1.5  # smallest quotient of two distinct aspect ratios


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A choice of anchors.

    Attributes:
        changes: configuration field -> value, where it differs from the given configuration.
        maps: all anchors.
    """

    changes: Mapping[str, Any]
    maps: Sequence[AnchorMap]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chosen:
    """The chosen anchors.

    Attributes:
        changes: as in `Candidate`; empty if the given anchors are the best.
        default: fraction of the boxes that the given anchors match, at an intersection over union of 0.5.
        fitted: fraction that the chosen ones match.
        anchors: number of boxes then predicted per image.
    """

    changes: Mapping[str, Any]
    default: float
    fitted: float
    anchors: int


def to_pixels(boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Convert boxes normalised to an input of `size` (rows, columns) to pixels, float64 [N, 4]."""
    return np.asarray(boxes, np.float64).reshape(-1, 4) * np.array([*size, *size], np.float64)


def sample(boxes: np.ndarray) -> np.ndarray:
    """Return at most some thousand boxes, on which candidates are built and tried."""
    return boxes[:: max(1, len(boxes) // _FEW)]


def choose_anchors(
    given: Candidate, others: Iterable[Candidate], boxes: np.ndarray, *, keep_count: bool
) -> Chosen:
    """Choose the anchors that fit the boxes best: the configuration's own, or others.

    Boxes are float [N, 4], pixels of the network's input. A further anchor per location, where `keep_count`
    allows it, must match enough additional boxes to be worth its time.
    """
    best = _best([given, *others], sample(boxes), keep_count) if len(boxes) else given
    default = matched_fraction(best_overlaps(boxes, given.maps))
    fitted = matched_fraction(best_overlaps(boxes, best.maps))
    fewer = _count(best.maps) < _count(given.maps)
    if fitted < default + (-_WORTH if fewer else _WORTH):
        best, fitted = given, default
    return Chosen(
        changes=best.changes,
        default=default,
        fitted=fitted,
        anchors=sum(anchors.count for anchors in best.maps),
    )


def _best(candidates: Sequence[Candidate], boxes: np.ndarray, keep_count: bool) -> Candidate:
    tried: list[tuple[float, float, Candidate]] = []
    places = _count(candidates[0].maps)
    for candidate in candidates:
        count = _count(candidate.maps)
        if keep_count and count != places:
            continue
        overlaps = best_overlaps(boxes, candidate.maps)
        # Similar anchors match about equally many boxes; the nearer ones are better.
        worth = (
            matched_fraction(overlaps) + 0.1 * float(overlaps.mean()) - _WORTH * count / len(candidate.maps)
        )
        tried.append((worth, -count, candidate))
    return max(tried, key=lambda entry: entry[:2])[2]


def _count(maps: Sequence[AnchorMap]) -> int:
    """Return the number of anchors per location, over all maps."""
    return sum(len(anchors.sizes) for anchors in maps)


def scales_and_ratios(boxes: np.ndarray, ratios: int) -> Iterable[tuple[float, int, list[float]]]:
    """Yield sides of the smallest anchor in cells, sizes per octave, and the boxes' aspect ratios.

    Boxes are float [N, 4] in pixels; `ratios` bounds the number of aspect ratios.
    """
    for count in range(1, ratios + 1):
        if found := aspect_ratios(boxes, count):
            for side, octave in itertools.product(SIDES, (1, 2, 3)):
                yield side, octave, found


def aspect_ratios(boxes: np.ndarray, count: int) -> list[float]:
    """Return `count` ratios of width to height for boxes; if these have fewer, add others."""
    ratios = list(aspect_clusters(boxes, count))
    for step in range(1, count + 1):
        if not 0 < len(ratios) < count:
            break
        beside = ratios[0] * _BESIDE**step, ratios[0] / _BESIDE**step
        ratios += [float(f"{ratio:.2g}") for ratio in beside][: count - len(ratios)]
    return sorted(ratios)


def size_of(scale: float, aspect_ratio: float) -> Size:
    """Return height and width for a scale (square root of area) and an aspect ratio (width over height)."""
    root = math.sqrt(aspect_ratio)
    return scale / root, scale * root


def sizes_by_layer(options: Any, layers: int) -> list[list[Size]]:
    """Return height and width of each anchor of a cell, in units of the base anchor, for each layer.

    The options have the fields of `generators.SsdAnchorGenerator`.
    """
    # A single layer takes min_scale, as nothing can be interpolated. Only the interpolated anchor uses the
    # scale after the last one.
    span = (options.max_scale - options.min_scale) / max(layers - 1, 1)
    scales = [*(options.scales or (options.min_scale + span * layer for layer in range(layers))), 1.0]
    found = []
    for layer, scale in enumerate(scales[:layers]):
        if layer == 0 and options.reduce_boxes_in_lowest_layer:
            found.append([size_of(REDUCED_SCALE, 1.0), size_of(scale, 2.0), size_of(scale, 0.5)])
            continue
        sizes = [size_of(scale, ratio) for ratio in options.aspect_ratios]
        if options.interpolated_scale_aspect_ratio > 0.0:
            between = math.sqrt(scale * scales[layer + 1])
            sizes.append(size_of(between, options.interpolated_scale_aspect_ratio))
        found.append(sizes)
    return found
