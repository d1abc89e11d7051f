"""Which metrics an evaluation gives: eval.proto's `metrics_set`, as far as it is measured here."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence

from detection_core.evaluation.coco_metrics import COCO_METRICS, CocoResult, category_metric
from detection_core.evaluation.results import EvaluatedImage
from detection_core.evaluation.voc_metrics import VocOptions, evaluate_voc

_LOG = logging.getLogger(__name__)

COCO_SET = "coco_detection_metrics"
VOC_SETS = {
    "pascal_voc_detection_metrics": VocOptions(),
    "weighted_pascal_voc_detection_metrics": VocOptions(weighted=True),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """What is reported beyond COCO's twelve numbers, which always are.

    Attributes:
        sets: names as in eval.proto's `metrics_set`; one that is not measured here is warned of.
        per_category: each class's own mAP too.
        all_per_category: all twelve numbers of each class.
    """

    sets: tuple[str, ...] = ()
    per_category: bool = False
    all_per_category: bool = False

    def __post_init__(self) -> None:
        for name in self.sets:
            if name != COCO_SET and name not in VOC_SETS:
                known = ", ".join([COCO_SET, *VOC_SETS])
                _LOG.warning("evaluate | metrics_set %r is not measured; known: %s", name, known)


def known_metrics(options: MetricOptions, class_names: Mapping[int, str]) -> list[str]:
    """Return the names of all metrics that `compute_metrics` can give."""
    known = [*COCO_METRICS, *(category_metric(name) for name in class_names.values())]
    for voc in _voc(options):
        known += evaluate_voc([], class_names, voc)
    return known


def compute_metrics(
    images: Sequence[EvaluatedImage],
    coco: CocoResult,
    class_names: Mapping[int, str],
    options: MetricOptions,
    wanted: Sequence[str] = (),
) -> dict[str, float]:
    """Return the metrics of an evaluation.

    Args:
        images: every image.
        coco: of the same images.
        class_names: class in [0, C) to name.
        options: what to report.
        wanted: further metrics to report, of `known_metrics`: those that a threshold is on.
    """
    found = coco.metrics(per_category=options.per_category, all_per_category=options.all_per_category)
    by_class = coco.metrics(per_category=True)
    found |= {name: by_class[name] for name in wanted if name in by_class}
    for voc in _voc(options):
        found |= evaluate_voc(images, class_names, voc)
    return found


def _voc(options: MetricOptions) -> list[VocOptions]:
    return [VOC_SETS[name] for name in options.sets if name in VOC_SETS]
