"""Compute the contents of curves.json: precision-recall curves, counts and confusion of each class."""

import numpy as np

from detection_core.artifacts import evaluation
from detection_core.evaluation.coco_format import join
from detection_core.evaluation.coco_metrics import RECALLS, SUMMARIES, CocoResult
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.results import IN_CROWD, IOU_THRESHOLD, NOT_MATCHED

BACKGROUND = "background"


def make_curves(split: EvaluatedSplit, score_threshold: float) -> evaluation.Curves:
    """Return the contents of curves.json.

    The curves are COCO's at IoU 0.5, of masks if the split compares these; their mean is the class's AP@.50.
    Counts and confusion hold for detections from the caller's score threshold on.
    """
    coco = split.compared
    map_50 = coco.summarise(SUMMARIES[evaluation.MAP_50], range(len(coco.classes)))
    matrix = confusion_matrix(split, score_threshold).tolist()
    return evaluation.Curves(
        iou_type=coco.kind.iou_type,
        iou_threshold=IOU_THRESHOLD,
        score_threshold=score_threshold,
        map50=map_50 if evaluation.is_measured(map_50) else None,
        classes=[_class_curve(coco, k, *own) for k, own in enumerate(_counts(split, score_threshold))],
        confusion=evaluation.Confusion(labels=[*coco.names, BACKGROUND], matrix=matrix),
    )


def _counts(split: EvaluatedSplit, score_threshold: float) -> list[list[int]]:
    """Count objects, found ones and false positives of each class."""
    parts = []
    for image, match in zip(split.counted, split.matches, strict=True):
        truth, detected = image.truth, image.detections
        hits, false = (detected.scores >= score_threshold) & [
            match.found_by >= 0,
            match.found_by == NOT_MATCHED,
        ]
        parts.append((truth.classes[~truth.is_crowd], detected.classes[hits], detected.classes[false]))
    classes = split.compared.classes
    of_class = (np.bincount(join(p, int), minlength=1 + max(classes)) for p in zip(*parts, strict=True))
    return np.stack(list(of_class))[:, classes].T.tolist()


def _class_curve(
    coco: CocoResult, k: int, objects: int, found: int, false_positives: int
) -> evaluation.ClassCurve:
    precision = coco.precision[:, :, k, 0, -1]
    has_objects = bool((precision > evaluation.NOTHING_TO_MEASURE).any())
    return evaluation.ClassCurve(
        name=coco.names[k],
        ap=float(precision.mean()) if has_objects else None,
        ap50=float(precision[0].mean()) if has_objects else None,
        objects=objects,
        found=found,
        false_positives=false_positives,
        misses=objects - found,
        recall=RECALLS.round(2).tolist() if has_objects else [],
        precision=precision[0].round(5).tolist() if has_objects else [],
        scores=coco.scores[0, :, k, 0, -1].round(5).tolist() if has_objects else [],
    )


def confusion_matrix(split: EvaluatedSplit, score_threshold: float) -> np.ndarray:
    """Count objects by true and detected class.

    Objects and detections are matched one to one across classes, the best overlap first.

    Args:
        split: its K classes are in the order of COCO's result.
        score_threshold: detections below it are left out.

    Returns:
        int64 [K + 1, K + 1]: true class by detected class. The last row counts detections without an object,
        the last column objects without a detection.
    """
    row_of = {label: k for k, label in enumerate(split.coco.classes)}
    background = len(row_of)
    matrix: np.ndarray = np.zeros((background + 1, background + 1), np.int64)
    for image, match in zip(split.counted, split.matches, strict=True):
        truth, detections = image.truth, image.detections
        confident = (detections.scores >= score_threshold) & (match.found_by != IN_CROWD)
        true_left: set[int] = set(np.flatnonzero(~truth.is_crowd).tolist())
        detected_left: set[int] = set(np.flatnonzero(confident).tolist())
        pairs = np.argwhere(match.overlaps >= IOU_THRESHOLD)
        best_first = np.argsort(-match.overlaps[pairs[:, 0], pairs[:, 1]], kind="stable")
        for d, g in pairs[best_first].tolist():
            if d in detected_left and g in true_left:
                detected_left.remove(d)
                true_left.remove(g)
                matrix[row_of[int(truth.classes[g])], row_of[int(detections.classes[d])]] += 1
        for g in true_left:
            matrix[row_of[int(truth.classes[g])], background] += 1
        for d in detected_left:
            matrix[background, row_of[int(detections.classes[d])]] += 1
    return matrix
