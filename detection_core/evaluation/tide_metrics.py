"""How much mAP each kind of error costs: TIDE, see `detection_core.evaluation.error_kinds`.

The figures are those of the authors' package, tidecv 1.0.1, as fractions. It differs from COCO's metrics and
from its paper:

- An image's best 100 detections of all classes count. A class with detections but no object has an AP of 0.
- A detection in a crowd needs an overlap above 0.5 to be ignored. It is classified all the same.
- A classification or localization error is corrected only if it has the highest score of both kinds for an
  object that was not found. Others are removed.
- Of equal scores, corrected splits rank the errors first. A negative gain of a kind becomes 0.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from detection_core.artifacts.evaluation import CLASSIFICATION, ERROR_KINDS, LOCALIZATION, MISSED
from detection_core.evaluation.coco_format import check_shapes
from detection_core.evaluation.error_kinds import classify_errors
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.results import IOU_THRESHOLD, EvaluatedImage, ImageMatch

_MOST = 100
_RECALLS = np.arange(101) / 100  # other roundings than COCO's


class _Detections(NamedTuple):
    """N detections in the images' order, and all G objects.

    `kind` and `meant` are those of `classify_errors`, `ignored` detections are in a crowd.
    """

    label: np.ndarray
    score: np.ndarray
    kind: np.ndarray
    meant: np.ndarray
    ignored: np.ndarray
    object_label: np.ndarray
    is_crowd: np.ndarray

    def count_objects(self, objects: np.ndarray) -> np.ndarray:
        """Count objects, bool [G], by class."""
        most = max(self.label.max(initial=0), self.object_label.max(initial=0))
        return np.bincount(self.object_label[objects & ~self.is_crowd], minlength=most + 1)


def evaluate_tide(split: EvaluatedSplit, *, masks: bool) -> list[float]:
    """Return mAP at IoU 0.5, its gain without each of `ERROR_KINDS`, false positives and false negatives.

    They are NaN without objects and detections. Masks are checked by `check_shapes`.
    """
    for image in split.counted if masks else ():
        check_shapes(image, "segm")
    same = split if masks == split.compares_masks else dataclasses.replace(split, compares_masks=masks)
    rows = _flatten(split.counted, same.matches)
    hit, counted = rows.kind == "", ~rows.ignored
    found: np.ndarray = np.zeros(len(rows.object_label), bool)
    found[rows.meant[hit]] = True
    near = np.flatnonzero(np.isin(rows.kind, (CLASSIFICATION, LOCALIZATION)))
    near = near[~found[rows.meant[near]]]
    objects, best = np.unique(rows.meant[near], return_index=True)
    corrected: np.ndarray = np.zeros(len(hit), bool)
    corrected[near[best]] = True
    missed = ~found
    missed[objects] = False
    existing, falling = rows.count_objects(found | ~found), np.argsort(-rows.score, kind="stable")
    before = _mean_ap(falling[counted[falling]], rows.label, hit, existing)
    ranked, gains = np.lexsort((hit, -rows.score)), []
    for kind in ERROR_KINDS:
        errors, label = rows.kind == kind, rows.label.copy()
        fixed = errors & corrected
        label[fixed] = rows.object_label[rows.meant[fixed]]
        kept = np.where(errors, fixed, counted)
        left = existing - rows.count_objects(missed) if kind == MISSED else existing
        gains.append(np.maximum(_mean_ap(ranked[kept[ranked]], label, hit | fixed, left) - before, 0.0))
    ideal = np.argsort(~hit, kind="stable")
    without_false = _mean_ap(ideal[counted[ideal]], rows.label, hit, existing)
    complete = _mean_ap(ranked[counted[ranked]], rows.label, hit, existing - rows.count_objects(~found))
    return [float(value) for value in (before, *gains, without_false - before, complete - before)]


def _flatten(images: Sequence[EvaluatedImage], matches: Sequence[ImageMatch]) -> _Detections:
    parts, true, start = [], [], 0
    for image, match in zip(images, matches, strict=True):
        (kinds, objects), found = classify_errors(image, match), image.detections
        crowds = image.truth.is_crowd & (found.classes[:, np.newaxis] == image.truth.classes)
        ignored = (match.overlaps * crowds > IOU_THRESHOLD).any(axis=1) & (match.found_by < 0)
        fields: tuple[np.ndarray, ...] = (found.classes, found.scores, kinds, objects + start, ignored)
        # An image's detections fall by score: later ones have no effect on what the first ones found.
        parts.append([field[:_MOST] for field in fields])
        true.append([image.truth.classes, image.truth.is_crowd])
        start += len(image.truth.classes)
    columns = [*zip(*parts, strict=True), *zip(*true, strict=True)]
    return _Detections._make(map(np.concatenate, columns))


def _mean_ap(ranked: np.ndarray, label: np.ndarray, hit: np.ndarray, objects: np.ndarray) -> float:
    """Return the mean AP of classes with objects or detections, else NaN; `ranked` are rows, best first."""
    ranked = ranked[np.argsort(label[ranked], kind="stable")]
    detections = np.bincount(label[ranked], minlength=len(objects))
    by_class = np.split(hit[ranked], np.cumsum(detections)[:-1])
    known = np.flatnonzero(objects + detections)
    return float(np.mean([_ap(by_class[c], objects[c]) for c in known])) if len(known) else float("nan")


def _ap(hits: np.ndarray, objects: int) -> float:
    """Return the mean precision at `_RECALLS` of ranked detections, bool [N]."""
    places = np.flatnonzero(hits)
    if not len(places):
        return 0.0
    found = np.arange(1, len(places) + 1)
    highest = np.maximum.accumulate((found / (places + 1))[::-1])[::-1]
    reached = np.asarray(np.searchsorted(found / objects, _RECALLS))
    return float(highest[reached[reached < len(found)]].sum() / len(_RECALLS))
