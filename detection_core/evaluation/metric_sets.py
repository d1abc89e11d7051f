"""The metrics of an evaluation by eval.proto's `metrics_set`; Pascal VOC's and Open Images' are made here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from detection_core.artifacts.evaluation import category_metric, group_metric
from detection_core.config.metric_names import REGISTERED_SETS
from detection_core.errors import ConfigError
from detection_core.evaluation.coco_metrics import BOXES, SHAPE_KINDS, Kind, evaluate_coco
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.results import EvaluatedImage, iou_px, to_px
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
    """

    prefix: str = "PascalBoxes"
    iou_threshold: float = 0.5
    weighted: bool = False
    recall_bounds: tuple[float, float] = WHOLE_CURVE
    difficult: bool = True
    groups: int | None = None
    only_labelled: bool = False

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
    """
    bounds = options.recall_bounds
    ranked = [_concatenated([_rank(image, c, options) for image in images]) for c in sorted(class_names)]
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
    """Return the area under the precision-recall curve, made monotonically decreasing.

    Args:
        scores: [N].
        hits: bool [N].
        objects: number of objects; 0 gives NaN.
        recall_bounds: the curve counts as 0 outside of them.
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
    """Find the hits of one class in one image."""
    truth, found = image.truth, image.detections
    if options.only_labelled and label not in image.labelled_classes:
        return _concatenated([])
    theirs, mine = found.classes == label, truth.classes == label
    grouped = truth.group_of & (options.groups is not None)
    difficult = truth.difficult & options.difficult
    scores = found.scores[theirs]
    single, groups = mine & ~grouped, mine & grouped
    counts, hits = _match(
        _overlaps(found.boxes[theirs], truth, single, fraction=False),
        difficult[single],
        options.iou_threshold,
    )
    in_groups = _overlaps(found.boxes[theirs], truth, groups, fraction=True)
    in_group, group_scores = _absorb(in_groups, scores, counts & ~hits, options.iou_threshold)
    counts &= ~in_group
    objects = int((single & ~difficult).sum())
    if options.groups:
        objects += options.groups * int(groups.sum())
        scores = np.concatenate([scores[counts], group_scores])
        return _Ranked(scores, np.concatenate([hits[counts], np.ones(len(group_scores), bool)]), objects)
    return _Ranked(scores[counts], hits[counts], objects)


def _overlaps(found: np.ndarray, truth: Instances, chosen: np.ndarray, *, fraction: bool) -> np.ndarray:
    """Return float64 [D, G]: IoU, or the fraction of the detection inside the object."""
    alone = np.full(int(chosen.sum()), fraction)
    return iou_px(to_px(found, truth), to_px(truth.boxes[chosen], truth), alone)


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


def _absorb(
    fractions: np.ndarray, scores: np.ndarray, free: np.ndarray, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return which detections lie in a group, bool [D], and the best score in each group that was found.

    `fractions`, [D, G], is the part of a detection inside a group; `free` ones found no single object.
    """
    inside: np.ndarray = np.zeros(len(fractions), bool)
    best: np.ndarray = np.zeros(fractions.shape[1], scores.dtype)
    if fractions.size:
        inside = free & (fractions.max(axis=1) >= threshold)
        np.maximum.at(best, fractions.argmax(axis=1)[inside], scores[inside])
    return inside, best[best > 0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """Metrics in addition to COCO's twelve, which are always reported.

    Attributes:
        sets: names as in eval.proto's `metrics_set`: `COCO_SET`, one of `SHAPE_KINDS` or `VOC_SETS`, or a
            registered one.
        per_category: also report each class's COCO mAP.
        all_per_category: all twelve COCO metrics of each class.
        groups: name to classes whose mean COCO mAP is reported.
        only_labelled: for COCO's metrics, leave out detections of classes that were not verified in an image.
        recall_bounds: of `precision_at_recall_detection_metrics`.
    """

    sets: tuple[str, ...] = ()
    per_category: bool = False
    all_per_category: bool = False
    groups: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    only_labelled: bool = False
    recall_bounds: tuple[float, float] = WHOLE_CURVE


VOC_SETS: Mapping[str, Callable[[MetricOptions], VocOptions]] = {
    "pascal_voc_detection_metrics": lambda _: VocOptions(),
    "weighted_pascal_voc_detection_metrics": lambda _: VocOptions(
        prefix="WeightedPascalBoxes", weighted=True
    ),
    "precision_at_recall_detection_metrics": lambda options: VocOptions(
        prefix="PrecisionAtRecallBoxes", recall_bounds=options.recall_bounds
    ),
    "oid_V2_detection_metrics": lambda _: VocOptions(prefix="OpenImagesV2", difficult=False, groups=0),
    "oid_challenge_detection_metrics": lambda _: VocOptions(
        prefix="OpenImagesDetectionChallenge", difficult=False, groups=1, only_labelled=True
    ),
}


def known_metrics(options: MetricOptions, class_names: Mapping[int, str]) -> list[str]:
    """Return the names of all metrics that `compute_metrics` supports.

    Raises:
        ConfigError: for a group with a class missing from the label map.
    """
    for group, members in options.groups.items():
        for member in members:
            if member not in class_names.values():
                raise ConfigError(
                    f"expected classes of the label map, {', '.join(list(class_names.values())[:8])}, ...,"
                    f" found {member!r}; correct it",
                    where=f"eval_config.super_categories[{group}]",
                )
    known: list[str] = []
    for kind in (BOXES, *_shape_kinds(options)):
        known += kind.summaries
        known += (category_metric(name, kind.map_name) for name in class_names.values())
        known += (group_metric(group, kind.map_name) for group in options.groups)
    for voc in _voc(options):
        known += voc.names(class_names)
    return known + list(_registered([], class_names, options))


def compute_metrics(
    split: EvaluatedSplit, options: MetricOptions, further: Sequence[str] = ()
) -> dict[str, float]:
    """Return the metrics of an evaluation.

    Args:
        split: the detector's findings.
        options: what to report.
        further: more metrics of `known_metrics` to report, because they have a threshold.
    """
    shapes = (evaluate_coco(split.counted, split.class_names, kind) for kind in _shape_kinds(options))
    found: dict[str, float] = {}
    for result in (split.coco, *shapes):
        found |= result.metrics(
            per_category=options.per_category,
            all_per_category=options.all_per_category,
            groups=options.groups,
        )
        by_class = result.metrics(per_category=True)
        found |= {name: by_class[name] for name in further if name in by_class}
    for voc in _voc(options):
        found |= evaluate_voc(split.images, split.class_names, voc)
    return found | _registered(split.images, split.class_names, options)


def _shape_kinds(options: MetricOptions) -> list[Kind]:
    return [SHAPE_KINDS[name] for name in options.sets if name in SHAPE_KINDS]


def _voc(options: MetricOptions) -> list[VocOptions]:
    return [VOC_SETS[name](options) for name in options.sets if name in VOC_SETS]


def _registered(
    images: Sequence[EvaluatedImage], class_names: Mapping[int, str], options: MetricOptions
) -> dict[str, float]:
    """Return the metrics of registered sets; names need the set's prefix, by which thresholds are checked."""
    found: dict[str, float] = {}
    for name in options.sets:
        if name not in REGISTERED_SETS:
            continue
        prefix = f"{REGISTERED_SETS[name].prefix}_"
        metrics = REGISTERED_SETS[name].compute(images, class_names)
        for metric in metrics:
            if not metric.startswith(prefix):
                raise ValueError(f"expected metrics of {name} to begin with {prefix!r}, found {metric!r}")
        found |= {metric: float(value) for metric, value in metrics.items()}
    return found
