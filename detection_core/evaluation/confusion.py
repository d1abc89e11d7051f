"""Which class objects were taken for."""

from __future__ import annotations

import numpy as np

from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.matching import IN_CROWD, IOU_THRESHOLD


def confusion_matrix(split: EvaluatedSplit, score_threshold: float) -> np.ndarray:
    """Count which class objects were taken for.

    Objects and detections are paired whatever their classes, the best overlap first, one to one.

    Args:
        split: its K classes are in the order of COCO's result.
        score_threshold: detections below it are left out.

    Returns:
        int64 [K + 1, K + 1]: true class by detected class; the last row counts detections without an object,
        the last column objects without a detection.
    """
    row_of = {label: k for k, label in enumerate(split.coco.classes)}
    background = len(row_of)
    matrix: np.ndarray = np.zeros((background + 1, background + 1), np.int64)
    for image, match in zip(split.images, split.matches, strict=True):
        truth, detections = image.truth, image.detections
        confident = (detections.scores >= score_threshold) & (match.found_by != IN_CROWD)
        true_left: set[int] = set(np.flatnonzero(~truth.is_crowd).tolist())
        detected_left: set[int] = set(np.flatnonzero(confident).tolist())
        for d, g in _pairs(match.overlaps):
            if d in detected_left and g in true_left:
                detected_left.remove(d)
                true_left.remove(g)
                matrix[row_of[int(truth.classes[g])], row_of[int(detections.classes[d])]] += 1
        for g in true_left:
            matrix[row_of[int(truth.classes[g])], background] += 1
        for d in detected_left:
            matrix[background, row_of[int(detections.classes[d])]] += 1
    return matrix


def _pairs(overlaps: np.ndarray) -> list[tuple[int, int]]:
    """Return pairs (detection, object) that overlap enough, the best first."""
    pairs = np.argwhere(overlaps >= IOU_THRESHOLD)
    order = np.argsort(-overlaps[pairs[:, 0], pairs[:, 1]], kind="stable")
    return [(int(d), int(g)) for d, g in pairs[order]]
