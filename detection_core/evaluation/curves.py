"""Precision-recall curves, counts and confusion of each class: what curves.json holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from detection_core.evaluation.coco_metrics import MAP_50, NOTHING_TO_MEASURE, RECALLS, CocoResult
from detection_core.evaluation.matching import (
    IOU_THRESHOLD,
    NOT_MATCHED,
    ImageMatch,
    confusion_matrix,
)
from detection_core.evaluation.results import EvaluatedImage

BACKGROUND = "background"


def make_curves(
    images: Sequence[EvaluatedImage],
    matches: Sequence[ImageMatch],
    coco: CocoResult,
    score_threshold: float,
) -> dict[str, Any]:
    """Return what curves.json holds, ready for JSON.

    The curves are COCO's at IoU 0.5; their mean is the class's AP@.50. Counts and confusion hold for the
    score threshold, a working point that the caller chose.

    Args:
        images: every image.
        matches: of each of them, at IoU 0.5.
        coco: of the same images.
        score_threshold: detections below it are not counted.

    Returns:
        {"iou_threshold", "score_threshold", "map50", "classes": [{"name", "ap", "ap50", "objects", "found",
        "false_positives", "misses", "recall", "precision", "scores"}], "confusion": {"labels", "matrix"}};
        "ap" and "ap50" are null, and the curve empty, for a class without an object.
    """
    confusion = confusion_matrix(images, matches, coco.classes, score_threshold)
    return {
        "iou_threshold": IOU_THRESHOLD,
        "score_threshold": score_threshold,
        "map50": _known(coco.metrics()[MAP_50]),
        "classes": [
            _class_curve(images, matches, coco, k, score_threshold) for k in range(len(coco.classes))
        ],
        "confusion": {"labels": [*coco.names, BACKGROUND], "matrix": confusion.tolist()},
    }


def _class_curve(
    images: Sequence[EvaluatedImage],
    matches: Sequence[ImageMatch],
    coco: CocoResult,
    k: int,
    score_threshold: float,
) -> dict[str, Any]:
    precision = coco.precision[:, :, k, 0, -1]
    has_objects = bool((precision > NOTHING_TO_MEASURE).any())
    objects, found, false_positives = _counts(images, matches, coco.classes[k], score_threshold)
    return {
        "name": coco.names[k],
        "ap": float(precision.mean()) if has_objects else None,
        "ap50": float(precision[0].mean()) if has_objects else None,
        "objects": objects,
        "found": found,
        "false_positives": false_positives,
        "misses": objects - found,
        "recall": RECALLS.round(2).tolist() if has_objects else [],
        "precision": precision[0].round(5).tolist() if has_objects else [],
        "scores": coco.scores[0, :, k, 0, -1].round(5).tolist() if has_objects else [],
    }


def _counts(
    images: Sequence[EvaluatedImage], matches: Sequence[ImageMatch], label: int, score_threshold: float
) -> tuple[int, int, int]:
    objects = found = false_positives = 0
    for image, match in zip(images, matches, strict=True):
        objects += int(((image.truth.classes == label) & ~image.truth.is_crowd).sum())
        counted = (image.detections.classes == label) & (image.detections.scores >= score_threshold)
        found += int((counted & (match.found_by > NOT_MATCHED)).sum())
        false_positives += int((counted & (match.found_by == NOT_MATCHED)).sum())
    return objects, found, false_positives


def _known(value: float) -> float | None:
    return None if np.isnan(value) or value == NOTHING_TO_MEASURE else value
