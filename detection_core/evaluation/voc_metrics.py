"""Pascal VOC's and Open Images' metrics under the Object Detection API's names."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from detection_core.evaluation.coco_format import check_shapes
from detection_core.evaluation.results import EvaluatedImage, iou_px, to_px
from detection_core.ops.mask_runs import mask_areas, mask_iou
from detection_core.structures import Instances

WHOLE_CURVE = (0.0, 1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocOptions:
    """Options of the metrics.

    Attributes:
        prefix: beginning of the metrics' names.
        iou_threshold: least overlap of a hit.
        weighted: weigh classes by their objects: all classes' detections are ranked in one list.
        recall_bounds: lowest and highest recall of the part of the curve that counts.
        difficult: whether objects marked difficult are ignored: neither required nor counted against a
            detection.
        groups: weight of an object marked as a group, which counts once and is found by any detection inside
            it. 0 ignores groups and detections inside them. None: a group is an object like any other.
        only_labelled: ignore detections of classes that were not verified in an image.
        masks: compare masks. An object with an empty mask is not required, and detections of its box are
            ignored.
    """

    prefix: str = "PascalBoxes"
    iou_threshold: float = 0.5
    weighted: bool = False
    recall_bounds: tuple[float, float] = WHOLE_CURVE
    difficult: bool = True
    groups: int | None = None
    only_labelled: bool = False
    masks: bool = False

    @property
    def map_name(self) -> str:
        """Name of the metric over all classes."""
        low, high = self.recall_bounds
        part = "" if self.recall_bounds == WHOLE_CURVE else f"@[{low:.1f},{high:.1f}]Recall"
        return f"{self.prefix}_Precision/mAP@{self.iou_threshold}IOU{part}"

    def names(self, class_names: Mapping[int, str]) -> list[str]:
        """Names of the metrics: over all classes, and of each by rising number."""
        by_class = f"{self.prefix}_PerformanceByCategory/AP@{self.iou_threshold}IOU"
        return [self.map_name, *(f"{by_class}/{class_names[c]}" for c in sorted(class_names))]


@dataclasses.dataclass(frozen=True)
class _Ranked:
    """Scores [N] and hits bool [N] of counted detections, and the number of objects."""

    scores: np.ndarray
    hits: np.ndarray
    objects: int


def evaluate_voc(
    images: Sequence[EvaluatedImage], class_names: Mapping[int, str], options: VocOptions
) -> dict[str, float]:
    """Return the mean average precision and each class's, NaN without objects.

    Everingham et al., The Pascal Visual Object Classes Challenge, 2010; the area under the whole curve, as
    from 2010 on. Groups and image labels as in Kuznetsova et al., The Open Images Dataset V4, 2020.

    Args:
        images: every image once.
        class_names: class in [0, C) to name.
        options: thresholds, weighting, and ignored objects.

    Raises:
        DataError: if masks are compared, for an object that was read without one.
        ModelError: likewise for a detection.
    """
    if options.masks:
        for image in images:
            check_shapes(image, "segm")
    bounds = options.recall_bounds
    parts: dict[int, list[_Ranked]] = {class_: [] for class_ in sorted(class_names)}
    for image in images:
        for class_ in parts.keys() & np.union1d(image.truth.classes, image.detections.classes).tolist():
            parts[class_].append(_rank(image, class_, options))
    ranked = list(map(_concatenated, parts.values()))
    own = [average_precision(r.scores, r.hits, r.objects, bounds) for r in ranked]
    if options.weighted:
        everything = _concatenated([r for r in ranked if r.objects])
        overall = average_precision(everything.scores, everything.hits, everything.objects, bounds)
    else:
        known = [value for value in own if not np.isnan(value)]
        overall = float(np.mean(known)) if known else float("nan")
    return dict(zip(options.names(class_names), [overall, *own], strict=True))


def average_precision(
    scores: np.ndarray, hits: np.ndarray, objects: int, recall_bounds: tuple[float, float] = WHOLE_CURVE
) -> float:
    """Return the area under the precision-recall curve of N detections, made monotonically decreasing.

    0 `objects` give NaN; the curve counts as 0 outside of the bounds of the recall.
    """
    if not objects:
        return float("nan")
    found = np.cumsum(hits[np.argsort(-scores, kind="stable")])
    recall, precision = found / objects, found / np.arange(1, len(found) + 1)
    inside = (recall >= recall_bounds[0]) & (recall <= recall_bounds[1])
    steps = np.diff(np.concatenate([[0.0], recall[inside]]))
    envelope = np.maximum.accumulate(precision[inside][::-1])[::-1]
    return float((steps * envelope).sum())


def _concatenated(parts: Sequence[_Ranked]) -> _Ranked:
    return _Ranked(
        np.concatenate([p.scores for p in parts] or [np.zeros(0)]),
        np.concatenate([p.hits for p in parts] or [np.zeros(0, bool)]),
        sum(p.objects for p in parts),
    )


def _rank(image: EvaluatedImage, label: int, options: VocOptions) -> _Ranked:
    """Find the hits of one class in one image; detections with an empty box are left out."""
    truth, boxes = image.truth, image.detections.boxes
    if options.only_labelled and label not in image.labelled_classes:
        return _concatenated([])
    not_empty = (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
    found = image.detections.take((image.detections.classes == label) & not_empty)
    required = truth.classes == label
    free: np.ndarray = np.ones(len(found.classes), bool)
    if options.masks:
        without = required & (mask_areas(truth.masks, truth.height, truth.width) == 0)
        required &= ~without
        hits, ignored, group_scores = _find(_mask_overlaps, found, truth, required, free, options)
        by_box, beside, _ = _find(_box_overlaps, found, truth, without, ~(hits | ignored), options)
        ignored |= by_box | beside
    else:
        hits, ignored, group_scores = _find(_box_overlaps, found, truth, required, free, options)
    grouped, difficult = _grouped(truth, options), truth.difficult & options.difficult
    objects = int((required & ~grouped & ~difficult).sum())
    scores, hits = found.scores[~ignored], hits[~ignored]
    if options.groups:
        objects += options.groups * int((required & grouped).sum())
        scores = np.concatenate([scores, group_scores])
        hits = np.concatenate([hits, np.ones(len(group_scores), bool)])
    return _Ranked(scores, hits, objects)


def _grouped(truth: Instances, options: VocOptions) -> np.ndarray:
    return truth.group_of & (options.groups is not None)


def _find(
    overlaps_of: Callable[..., np.ndarray],
    found: Instances,
    truth: Instances,
    chosen: np.ndarray,
    free: np.ndarray,
    options: VocOptions,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Match detections that are `free`, bool [D], with the `chosen` objects, bool [G].

    Returns:
        Hits, bool [D]; ignored detections, bool [D]; and the best score in each group that was found.
    """
    grouped = _grouped(truth, options)
    single, groups = chosen & ~grouped, chosen & grouped
    overlaps = overlaps_of(found, truth, single, fraction=False) * free[:, np.newaxis]
    counts, hits = _match(overlaps, (truth.difficult & options.difficult)[single], options.iou_threshold)
    fractions = overlaps_of(found, truth, groups, fraction=True)
    # Those that lie in a group found no single object.
    in_group: np.ndarray = np.zeros(len(fractions), bool)
    best: np.ndarray = np.zeros(fractions.shape[1], found.scores.dtype)
    if fractions.size:
        in_group = free & counts & ~hits & (fractions.max(axis=1) >= options.iou_threshold)
        np.maximum.at(best, fractions.argmax(axis=1)[in_group], found.scores[in_group])
    return hits, ~counts | in_group, best[best > 0]


def _box_overlaps(found: Instances, truth: Instances, chosen: np.ndarray, *, fraction: bool) -> np.ndarray:
    """Return float64 [D, G]: IoU, or the fraction of the detection inside the object."""
    alone = np.full(int(chosen.sum()), fraction)
    return iou_px(to_px(found.boxes, truth), to_px(truth.boxes[chosen], truth), alone)


def _mask_overlaps(found: Instances, truth: Instances, chosen: np.ndarray, *, fraction: bool) -> np.ndarray:
    """Return the same of masks."""
    alone = np.full(int(chosen.sum()), fraction)
    return mask_iou(found.masks, truth.masks[chosen], alone, truth.height, truth.width)


def _match(overlaps: np.ndarray, difficult: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Return which detections count, bool [D], and which are hits, bool [D].

    Each detection is compared only with the object that it overlaps most. It is a false positive if a better
    detection has found that object. `overlaps` is [D, G], with detections by descending score.
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
