"""Weighted boxes fusion: one list of boxes of what several detectors found in an image.

Solovyev, Wang and Gabruseva, "Weighted boxes fusion: Ensembling boxes from different object detection
models", 2021, https://arxiv.org/abs/1910.13302, as google/automl's EfficientDet computes it.
"""

from __future__ import annotations

import dataclasses

import numpy as np

IOU_THRESHOLD = 0.55
"""Overlap that the paper found best, and from which google/automl takes two boxes for one object."""


@dataclasses.dataclass
class _Cluster:
    """Boxes of one object, and their running average.

    Attributes:
        box: float64 [4], the mean of its boxes, weighted by their scores.
        scores: sum of its scores.
        size: how many boxes.
    """

    box: np.ndarray
    scores: float
    size: int = 1

    def add(self, box: np.ndarray, score: float) -> None:
        """Take one more box in; where no box has a score, the first stands."""
        total = self.scores + score
        if total > 0:
            self.box = (self.box * self.scores + box * score) / total
        self.scores, self.size = total, self.size + 1


def fuse_boxes(
    boxes: np.ndarray,
    scores: np.ndarray,
    classes: np.ndarray,
    *,
    models: int,
    iou_threshold: float = IOU_THRESHOLD,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Join what several detectors found in one image.

    Boxes of a class are taken by falling score, each into the cluster whose average it overlaps most, or into
    a new one where that is less than the threshold. A cluster's score is the mean of its boxes' scores, times
    the part of the detectors that it has boxes of: what few of them saw counts less.

    Args:
        boxes: float32 [D, 4], of all detectors together.
        scores: float32 [D], 0..1.
        classes: int32 [D].
        models: detectors that looked, those that found nothing among them.
        iou_threshold: overlap from which two boxes show one object.

    Returns:
        Boxes float32 [F, 4], scores float32 [F] (falling) and classes int32 [F].
    """
    found: list[tuple[_Cluster, int]] = []
    for label in np.unique(classes):
        rows = np.flatnonzero(classes == label)
        order = rows[np.argsort(-scores[rows], kind="stable")]
        found += [(cluster, int(label)) for cluster in _clusters(boxes[order], scores[order], iou_threshold)]
    # Averages of double precision, so that the order of the sums does not show in what is given back.
    fused = np.array([c.scores / c.size * min(1.0, c.size / models) for c, _ in found], np.float32)
    ranking = np.argsort(-fused, kind="stable")
    joined = np.array([c.box for c, _ in found], np.float32).reshape(-1, 4)
    return joined[ranking], fused[ranking], np.array([label for _, label in found], np.int32)[ranking]


def _clusters(boxes: np.ndarray, scores: np.ndarray, threshold: float) -> list[_Cluster]:
    clusters: list[_Cluster] = []
    averages = np.empty((len(boxes), 4))
    for box, score in zip(boxes.astype(np.float64), scores.tolist(), strict=True):
        overlaps = _iou(averages[: len(clusters)], box)
        place = int(overlaps.argmax()) if clusters else 0
        if clusters and overlaps[place] >= threshold:
            clusters[place].add(box, score)
        else:
            place = len(clusters)
            clusters.append(_Cluster(box=box, scores=score))
        averages[place] = clusters[place].box
    return clusters


def _iou(boxes: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Intersection over union of boxes [N, 4] with a box [4]; 0 where neither has an area."""
    sides = np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2])
    shared = np.prod(np.maximum(sides, 0.0), axis=1)
    together = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) + np.prod(box[2:] - box[:2]) - shared
    return np.divide(shared, together, out=np.zeros_like(shared), where=together > 0)
