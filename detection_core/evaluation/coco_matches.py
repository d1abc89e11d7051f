"""COCO's matching kept per image, so that resampled splits need no new matching.

The engine of COCO's metrics does not expose its matches. These are the same, by the rules of the COCO
detection evaluation (Lin et al., 2014, https://cocodataset.org/#detection-eval).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from detection_core.evaluation.coco_metrics import AREA_RANGES, IOU_THRESHOLDS, MAX_DETECTIONS
from detection_core.evaluation.results import EvaluatedImage, box_areas, iou_px, to_px


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassMatches:
    """A class's detections of all images by descending score, N of them, at T IoU thresholds.

    Attributes:
        image: int [N], index of the image of each detection.
        rank: int [N], rank among the image's detections of the class.
        hits: bool [T, N], whether it found an object that counts.
        ignored: bool [T, N], whether it is ignored: in a crowd, or of another size.
        objects: int [number of images], objects that count.
    """

    image: np.ndarray
    rank: np.ndarray
    hits: np.ndarray
    ignored: np.ndarray
    objects: np.ndarray


def match_class(images: Sequence[EvaluatedImage], class_: int, area: str = "all") -> ClassMatches:
    """Match a split's detections of a class with its objects.

    Args:
        images: every image once.
        class_: in [0, C).
        area: name of the area range, in `AREA_RANGES`, whose objects count.
    """
    return _joined([_match(image, class_, area) for image in images])


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ImageMatches:
    scores: np.ndarray
    hits: np.ndarray
    ignored: np.ndarray
    objects: int


_NOTHING = _ImageMatches(
    scores=np.zeros(0, np.float32),
    hits=np.zeros((len(IOU_THRESHOLDS), 0), bool),
    ignored=np.zeros((len(IOU_THRESHOLDS), 0), bool),
    objects=0,
)


def _joined(parts: Sequence[_ImageMatches]) -> ClassMatches:
    counts = [len(part.scores) for part in parts]
    scores = np.concatenate([part.scores for part in parts])
    order = np.argsort(-scores, kind="stable")
    rank = np.concatenate([np.arange(count) for count in counts])
    return ClassMatches(
        image=np.repeat(np.arange(len(parts)), counts)[order],
        rank=rank[order],
        hits=np.concatenate([part.hits for part in parts], axis=1)[:, order],
        ignored=np.concatenate([part.ignored for part in parts], axis=1)[:, order],
        objects=np.array([part.objects for part in parts]),
    )


def _match(image: EvaluatedImage, class_: int, area: str) -> _ImageMatches:
    truth, found = image.truth, image.detections
    of_class = np.flatnonzero(found.classes == class_)
    objects = np.flatnonzero(truth.classes == class_)
    if not (of_class.size or objects.size):
        return _NOTHING
    of_class = of_class[np.argsort(-found.scores[of_class], kind="stable")][: MAX_DETECTIONS[-1]]
    boxes, crowd = to_px(truth.boxes[objects], truth), truth.is_crowd[objects]
    detected = to_px(found.boxes[of_class], truth)
    known = truth.area[objects]
    skipped = crowd | _outside(np.where(known > 0, known, box_areas(boxes)), area)
    overlaps = iou_px(detected, boxes, crowd)
    hits, ignored = _paired(overlaps, skipped, crowd)
    other_size = _outside(box_areas(detected), area)
    return _ImageMatches(
        scores=found.scores[of_class],
        hits=hits,
        ignored=ignored | (other_size & ~hits),
        objects=int((~skipped).sum()),
    )


def _outside(areas: np.ndarray, name: str) -> np.ndarray:
    low, high = AREA_RANGES[name]
    return (areas < low) | (areas > high)


def _paired(overlaps: np.ndarray, skipped: np.ndarray, crowd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Match detections by descending score with the best free object, preferring those that count.

    `overlaps` is float64 [D, G]. `skipped`, bool [G], objects do not count; `crowd` ones match any number.
    The results, bool [T, D], are detections of an object that counts, and of one that does not.
    """
    thresholds = np.minimum(IOU_THRESHOLDS, 1 - 1e-10)
    hits: np.ndarray = np.zeros((len(thresholds), len(overlaps)), bool)
    ignored = np.zeros_like(hits)
    free = np.ones((len(thresholds), overlaps.shape[1]), bool)
    rows = np.arange(len(thresholds))
    for d in np.flatnonzero((overlaps >= thresholds[0]).any(axis=1)):
        near = (overlaps[d] >= thresholds[:, None]) & (free | crowd)
        for counted, taken in ((near & ~skipped, hits), (near & skipped, ignored)):
            takes = counted.any(axis=1) & ~hits[:, d]
            best = _last_best(np.where(counted, overlaps[d], -1.0))
            taken[takes, d] = True
            free[rows[takes], best[takes]] = False
    return hits, ignored


def _last_best(values: np.ndarray) -> np.ndarray:
    """Return the index of each row's largest value; of equal ones the last, as COCO's tools do."""
    return values.shape[1] - 1 - values[:, ::-1].argmax(axis=1)
