"""Names of the metrics that an evaluation gives, as far as a config tells them: classes are in the data."""

from __future__ import annotations

from collections.abc import Iterable

from detection_core.artifacts.coco_names import CATEGORY_PREFIX, COCO_METRICS, GROUP_PREFIX
from detection_core.config.suggestions import near_names
from detection_core.errors import ConfigError
from detection_core.protos.eval_pb2 import EvalConfig

_OF_CLASSES = (CATEGORY_PREFIX, GROUP_PREFIX)

SET_PREFIXES = {
    "pascal_voc_detection_metrics": "PascalBoxes",
    "weighted_pascal_voc_detection_metrics": "WeightedPascalBoxes",
    "precision_at_recall_detection_metrics": "PrecisionAtRecallBoxes",
    "oid_V2_detection_metrics": "OpenImagesV2",
    "oid_challenge_detection_metrics": "OpenImagesDetectionChallenge",
}
"""Set of metrics of an `eval_config` to how its metrics' names begin."""


def check_metric_names(names: Iterable[str], message: EvalConfig, where: str) -> None:
    """Refuse a metric that no evaluation would give, before a model is trained that it is to judge.

    Whether a class is there is seen when the label map is.

    Args:
        names: of metrics, as thresholds name them.
        message: what is measured.
        where: place of the names, for errors.

    Raises:
        ConfigError: naming the nearest metric.
    """
    prefixes = [SET_PREFIXES[name] for name in message.metrics_set if name in SET_PREFIXES]
    parts = ("Precision/mAP@", "PerformanceByCategory/AP@")
    begins = (*_OF_CLASSES, *(f"{prefix}_{part}" for prefix in prefixes for part in parts))
    for name in names:
        if name in COCO_METRICS or name.startswith(begins):
            continue
        near = near_names(name[:100], COCO_METRICS)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"one is {COCO_METRICS[0]!r}"
        missing = [s for s, prefix in SET_PREFIXES.items() if name.startswith(f"{prefix}_")]
        if missing:
            hint = f"add {missing[0]} to eval_config.metrics_set"
        raise ConfigError(f"expected a metric of the evaluation, found {name[:100]!r}; {hint}", where=where)
