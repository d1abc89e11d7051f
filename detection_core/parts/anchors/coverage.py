"""How well anchors cover boxes, and which aspect ratios boxes have; without laying the anchors out.

A box and an anchor of given sizes overlap most where their centres are nearest, so that of all places of a
feature map only one counts. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

MATCHED = 0.5
"""Intersection over union from which an anchor is taken for a box, in the configurations of the field."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorMap:
    """The anchors of one feature map, pixels of the network's input.

    Attributes:
        shape: rows and columns.
        stride: (y, x) between cells.
        offset: (y, x) of the first centre.
        sizes: height and width of each anchor of a cell.
    """

    shape: tuple[int, int]
    stride: tuple[float, float]
    offset: tuple[float, float]
    sizes: Sequence[tuple[float, float]]

    @property
    def count(self) -> int:
        """How many anchors there are."""
        return self.shape[0] * self.shape[1] * len(self.sizes)


def best_overlaps(boxes: np.ndarray, maps: Sequence[AnchorMap]) -> np.ndarray:
    """Return the intersection over union of each box with the anchor that is most like it.

    Args:
        boxes: float [N, 4] (ymin, xmin, ymax, xmax), pixels of the network's input.
        maps: all anchors.

    Returns:
        float64 [N], 0..1; a box without area has 0.
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
    """Return the overlap of boxes with an anchor whose centre is so far away, all [N, 2] or [2]."""
    common = np.minimum(np.minimum(sides, size), (sides + size) / 2 - away)
    intersection = np.prod(np.maximum(common, 0.0), axis=1)
    union = np.prod(sides, axis=1) + np.prod(size) - intersection
    return np.where(union > 0, intersection / np.maximum(union, 1e-12), 0.0)


def matched_fraction(overlaps: np.ndarray) -> float:
    """Return which part of the boxes an anchor matches, 0 where there is no box."""
    return float(np.mean(overlaps >= MATCHED)) if len(overlaps) else 0.0


def aspect_clusters(boxes: np.ndarray, count: int, rounds: int = 50) -> tuple[float, ...]:
    """Return the aspect ratios that stand for the boxes' own.

    The dimension clusters of YOLOv2, https://arxiv.org/abs/1612.08242, on boxes of one area: k-means whose
    distance is 1 - IoU, which for shapes of one area depends on the ratio of their aspect ratios alone.

    Args:
        boxes: float [N, 4] (ymin, xmin, ymax, xmax), pixels of the network's input.
        count: how many clusters at most.
        rounds: of k-means at most.

    Returns:
        Width over height, rising, two digits each; fewer where clusters meet, none where there is no box.
    """
    sides = (boxes[:, 2:] - boxes[:, :2])[np.all(boxes[:, 2:] > boxes[:, :2], axis=1)]
    if not len(sides):
        return ()
    logs = np.sort(np.log(sides[:, 1] / sides[:, 0]))
    centres = np.quantile(logs, (np.arange(count) + 0.5) / count)
    for _ in range(rounds):
        nearest = np.argmin(np.abs(logs[:, np.newaxis] - centres), axis=1)
        groups = [logs[nearest == index] for index in range(len(centres))]
        # The median in place of the mean, as a few boxes of extreme ratios would pull it away from the rest.
        moved = np.array([np.median(group) for group in groups if len(group)])
        if len(moved) == len(centres) and np.allclose(moved, centres):
            break
        centres = moved
    return tuple(sorted({float(f"{np.exp(centre):.2g}") for centre in centres}))
