"""The metrics of an evaluation by eval.proto's `metrics_set`."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detection_core.artifacts import evaluation
from detection_core.config import metric_names
from detection_core.config.metric_names import KEYPOINT_SET, MASK_SETS, REGISTERED_SETS
from detection_core.errors import ConfigError
from detection_core.evaluation.coco_format import has_shapes
from detection_core.evaluation.coco_metrics import BOXES, SHAPE_KINDS, Kind
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.lvis_metrics import evaluate_lvis
from detection_core.evaluation.results import EvaluatedImage
from detection_core.evaluation.tide_metrics import evaluate_tide
from detection_core.evaluation.voc_metrics import WHOLE_CURVE, VocOptions, evaluate_voc


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """Metrics in addition to COCO's twelve, which are always reported.

    Attributes:
        sets: names as in eval.proto's `metrics_set`: `COCO_SET`, `LVIS_SET`, one of `SHAPE_KINDS`,
            `VOC_SETS` or `TIDE_METRICS`, or a registered one.
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


def _voc_set(name: str, values: Mapping[str, Any]) -> Callable[[MetricOptions], VocOptions]:
    fixed = VocOptions(**values)
    if name != "precision_at_recall_detection_metrics":
        return lambda options: fixed
    return lambda options: dataclasses.replace(fixed, recall_bounds=options.recall_bounds)


VOC_SETS = {name: _voc_set(name, values) for name, values in metric_names.VOC_SETS.items()}


def known_metrics(options: MetricOptions, class_names: Mapping[int, str]) -> list[str]:
    """Return all metrics of `compute_metrics`; ConfigError for a group with an unknown class."""
    for group, members in options.groups.items():
        for member in members:
            if member not in class_names.values():
                raise ConfigError(
                    f"expected classes of the label map, {', '.join(list(class_names.values())[:8])}, ...,"
                    f" found {member!r}; correct it",
                    where=f"eval_config.super_categories[{group}]",
                )
    known: list[str] = []
    for kind in coco_kinds(options):
        known += kind.summaries
        known += (evaluation.category_metric(name, kind.map_name) for name in class_names.values())
        known += (evaluation.group_metric(group, kind.map_name) for group in options.groups)
    for voc in _voc(options):
        known += voc.names(class_names)
    known += evaluation.LVIS_METRICS if evaluation.LVIS_SET in options.sets else ()
    for name in options.sets:
        known += evaluation.TIDE_METRICS.get(name, ())
    return known + list(_registered([], class_names, options))


def missing_shapes(images: Sequence[EvaluatedImage], options: MetricOptions) -> str:
    """Return what the sets compare and a detection lacks: `masks`, `keypoints` or nothing."""
    compared = {"masks": ("segm", MASK_SETS), "keypoints": ("keypoints", {KEYPOINT_SET})}
    for what, (iou_type, sets) in compared.items():
        if not sets.isdisjoint(options.sets) and not all(
            has_shapes(one.detections, iou_type) for one in images
        ):
            return what
    return ""


def compute_metrics(
    split: EvaluatedSplit, options: MetricOptions, further: Sequence[str] = ()
) -> dict[str, float]:
    """Return the metrics of an evaluation, and `further` ones of `known_metrics`, which have a threshold."""
    shapes = (
        split.compared if kind is split.compared.kind else split.coco_of(kind)
        for kind in coco_kinds(options)[1:]
    )
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
    if evaluation.LVIS_SET in options.sets:
        found |= evaluate_lvis(split.images, split.class_names, split.frequencies)
    for name in options.sets:
        if name in evaluation.TIDE_METRICS:
            values = evaluate_tide(split, masks=name in MASK_SETS)
            found |= dict(zip(evaluation.TIDE_METRICS[name], values, strict=True))
    return found | _registered(split.images, split.class_names, options)


def coco_kinds(options: MetricOptions) -> list[Kind]:
    """Return the shapes that COCO's metrics of an evaluation compare, boxes first."""
    return [BOXES, *(SHAPE_KINDS[name] for name in options.sets if name in SHAPE_KINDS)]


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
