"""Weighted boxes fusion: merge the detections of several detectors in one image.

Solovyev, Wang and Gabruseva, "Weighted boxes fusion: Ensembling boxes from different object detection
models", 2021, https://arxiv.org/abs/1910.13302, as google/automl's EfficientDet computes it.
"""

import dataclasses

import numpy as np

IOU_THRESHOLD = 0.55
"""Best IoU in the paper, and the minimum IoU at which google/automl merges two boxes."""


@dataclasses.dataclass
class _Cluster:
    """Boxes of one object: their mean weighted by scores, float64 [4], sum of scores, and number."""

    box: np.ndarray
    scores: float
    size: int = 1

    def add(self, box: np.ndarray, score: float) -> None:
        """Add a box; while all scores are 0, the first box stays."""
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
    """Merge the detections of several detectors in one image.

    Boxes of a class are taken by falling score. Each joins the cluster whose mean box it overlaps most, or
    starts a cluster below the threshold. A cluster's score is its boxes' mean score times min(1, boxes /
    detectors).

    Args:
        boxes: float32 [D, 4], of all detectors together.
        scores: float32 [D], 0..1.
        classes: int32 [D].
        models: number of detectors, with those that found nothing.
        iou_threshold: minimum IoU of two boxes of one object.

    Returns:
        Boxes float32 [F, 4], scores float32 [F] (falling) and classes int32 [F].
    """
    found: list[tuple[_Cluster, int]] = []
    for label in np.unique(classes):
        rows = np.flatnonzero(classes == label)
        order = rows[np.argsort(-scores[rows], kind="stable")]
        found += [(cluster, int(label)) for cluster in _clusters(boxes[order], scores[order], iou_threshold)]
    # Double precision, so that the order of the sums does not change the float32 results.
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
    """Return the IoU of boxes [N, 4] with a box [4]; 0 if neither has an area."""
    sides = np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2])
    shared = np.prod(np.maximum(sides, 0.0), axis=1)
    together = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) + np.prod(box[2:] - box[:2]) - shared
    return np.divide(shared, together, out=np.zeros_like(shared), where=together > 0)
