"""Match detections with objects, for pictures, counts and the confusion matrix."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from detection_core.evaluation.results import EvaluatedImage, iou_px, to_px

IOU_THRESHOLD = 0.5
NOT_MATCHED = -1
IN_CROWD = -2


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageMatch:
    """Matches of one image.

    Attributes:
        found_by: int [D], object of the same class found by each detection. `NOT_MATCHED` for a false
            positive; `IN_CROWD` for one in a crowd of its class, which does not count.
        overlaps: float64 [D, G], overlap of every detection with every object, across classes.
    """

    found_by: np.ndarray
    overlaps: np.ndarray


def match_image(image: EvaluatedImage, iou_threshold: float = IOU_THRESHOLD) -> ImageMatch:
    """Match as COCO does: by descending score, each detection takes the best free object.

    Args:
        image: detections by descending score.
        iou_threshold: least overlap of a match.
    """
    truth, found = image.truth, image.detections
    overlaps = iou_px(to_px(found.boxes, truth), to_px(truth.boxes, truth), truth.is_crowd)
    found_by = np.full(len(found.classes), NOT_MATCHED)
    near = (overlaps >= iou_threshold) & (found.classes[:, None] == truth.classes[None, :])
    found_by[(near & truth.is_crowd).any(axis=1)] = IN_CROWD
    free = ~truth.is_crowd
    for d in np.flatnonzero(near.any(axis=1)):
        candidates = np.where(near[d] & free, overlaps[d], -1.0)
        best = int(candidates.argmax())
        if candidates[best] >= 0:
            found_by[d] = best
            free[best] = False
    return ImageMatch(found_by=found_by, overlaps=overlaps)


def finds_any(matches: Sequence[ImageMatch]) -> bool:
    """Return whether any detection found an object."""
    return any(bool((match.found_by >= 0).any()) for match in matches)


def best_score_threshold(images: Sequence[EvaluatedImage], matches: Sequence[ImageMatch]) -> float:
    """Return the score with the highest F1 over all classes.

    Returns:
        A score of a detection; 0.5 if nothing was found.
    """
    objects = sum(int((~image.truth.is_crowd).sum()) for image in images)
    counted = [match.found_by != IN_CROWD for match in matches]
    scores = np.concatenate(
        [i.detections.scores[c] for i, c in zip(images, counted, strict=True)] or [np.zeros(0)]
    )
    hits = np.concatenate([m.found_by[c] >= 0 for m, c in zip(matches, counted, strict=True)] or [scores > 0])
    if not hits.any():
        return 0.5
    order = np.argsort(-scores, kind="stable")
    found = np.cumsum(hits[order])
    f1 = 2 * found / (np.arange(1, len(order) + 1) + objects)
    return float(scores[order][int(f1.argmax())])
