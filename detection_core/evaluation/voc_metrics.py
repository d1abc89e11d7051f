"""Pascal VOC's box metrics under the Object Detection API's names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from detection_core.evaluation.results import EvaluatedImage, iou_px, to_px


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocOptions:
    """What Pascal's metrics depend on.

    Attributes:
        iou_threshold: overlap from which a detection may be a hit.
        weighted: weigh classes by their objects: all classes' detections are ranked in one list.
    """

    iou_threshold: float = 0.5
    weighted: bool = False

    @property
    def prefix(self) -> str:
        """Beginning of the metrics' names."""
        return "WeightedPascalBoxes" if self.weighted else "PascalBoxes"

    @property
    def map_name(self) -> str:
        """Name of the metric over all classes."""
        return f"{self.prefix}_Precision/mAP@{self.iou_threshold}IOU"

    def category_name(self, name: str) -> str:
        """Name of a class's own metric."""
        return f"{self.prefix}_PerformanceByCategory/AP@{self.iou_threshold}IOU/{name}"


@dataclasses.dataclass(frozen=True)
class _Ranked:
    """Scores [N] and hits bool [N] of detections that count, and how many objects there were to find."""

    scores: np.ndarray
    hits: np.ndarray
    objects: int


def evaluate_voc(
    images: Sequence[EvaluatedImage], class_names: Mapping[int, str], options: VocOptions
) -> dict[str, float]:
    """Return the mean average precision and each class's own, NaN where there is no object.

    Everingham et al., The Pascal Visual Object Classes Challenge, 2010; the area under the whole curve, as
    from 2010 on. Objects marked difficult need not be found and do no harm when they are.

    Args:
        images: every image once.
        class_names: class in [0, C) to name.
        options: thresholds and weighting.
    """
    ranked = {c: _rank(images, c, options.iou_threshold) for c in sorted(class_names)}
    own = {c: average_precision(r.scores, r.hits, r.objects) for c, r in ranked.items()}
    if options.weighted:
        everything = [r for r in ranked.values() if r.objects]
        overall = average_precision(
            np.concatenate([r.scores for r in everything] or [np.zeros(0)]),
            np.concatenate([r.hits for r in everything] or [np.zeros(0, bool)]),
            sum(r.objects for r in everything),
        )
    else:
        known = [value for value in own.values() if not np.isnan(value)]
        overall = float(np.mean(known)) if known else float("nan")
    return {options.map_name: overall} | {
        options.category_name(class_names[c]): value for c, value in own.items()
    }


def average_precision(scores: np.ndarray, hits: np.ndarray, objects: int) -> float:
    """Return the area below the precision-recall curve, made to fall monotonously.

    Args:
        scores: [N].
        hits: bool [N].
        objects: how many there were to find; with none the result is NaN.
    """
    if not objects:
        return float("nan")
    hits = hits[np.argsort(-scores, kind="stable")]
    found = np.cumsum(hits)
    precision = found / np.arange(1, len(hits) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    # Recall rises by 1 / objects at each hit and nowhere else.
    return float(envelope[hits].sum() / objects)


def _rank(images: Sequence[EvaluatedImage], label: int, iou_threshold: float) -> _Ranked:
    scores, hits, objects = [], [], 0
    for image in images:
        truth, found = image.truth, image.detections
        mine, theirs = truth.classes == label, found.classes == label
        objects += int((mine & ~truth.difficult).sum())
        counts, hit = _match(
            iou_px(
                to_px(found.boxes[theirs], truth),
                to_px(truth.boxes[mine], truth),
                np.zeros(int(mine.sum()), bool),
            ),
            truth.difficult[mine],
            iou_threshold,
        )
        scores.append(found.scores[theirs][counts])
        hits.append(hit[counts])
    return _Ranked(
        np.concatenate(scores or [np.zeros(0)]), np.concatenate(hits or [np.zeros(0, bool)]), objects
    )


def _match(overlaps: np.ndarray, difficult: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Return which detections count, bool [D], and which are hits, bool [D].

    Each detection looks only at the object that it overlaps most; one already found by a better detection
    makes it a false alarm.

    Args:
        overlaps: [D, G], detections by falling score.
        difficult: bool [G].
        threshold: overlap from which a detection may be a hit.
    """
    counts: np.ndarray = np.ones(len(overlaps), bool)
    hits: np.ndarray = np.zeros(len(overlaps), bool)
    if not overlaps.size:
        return counts, hits
    best = overlaps.argmax(axis=1)
    taken: np.ndarray = np.zeros(len(difficult), bool)
    for d in np.flatnonzero(overlaps.max(axis=1) >= threshold):
        if difficult[best[d]]:
            counts[d] = False
        elif not taken[best[d]]:
            taken[best[d]] = hits[d] = True
    return counts, hits
