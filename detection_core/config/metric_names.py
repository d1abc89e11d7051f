"""Names of an evaluation's metrics, as far as a config defines them: classes are in the data."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from detection_core.artifacts.evaluation import (
    CATEGORY_PREFIX,
    COCO_METRICS,
    GROUP_PREFIX,
    LVIS_METRICS,
    LVIS_SET,
    SHAPE_METRICS,
    SLICE_PREFIX,
    TIDE_METRICS,
    metric_prefix,
)
from detection_core.bounded.plain_yaml import module_table
from detection_core.config.suggestions import near_names
from detection_core.errors import ConfigError
from detection_core.protos.eval_pb2 import EvalConfig

COCO_SET = "coco_detection_metrics"
_OF_CLASSES = (CATEGORY_PREFIX, GROUP_PREFIX, SLICE_PREFIX)

VOC_SETS: Mapping[str, Mapping[str, Any]] = module_table(__file__)
"""Metric set like Pascal VOC's to its `VocOptions`."""
SET_PREFIXES: Mapping[str, str] = {name: options["prefix"] for name, options in VOC_SETS.items()}
"""Metric set of an `eval_config` to the prefix of its metric names."""

_LISTED = SHAPE_METRICS | TIDE_METRICS
"""Metric set to its metrics, but those of single classes."""
MEASURED = tuple(sorted((COCO_SET, LVIS_SET, *_LISTED, *SET_PREFIXES)))
"""Metric sets that are measured, besides registered ones."""

MASK_SETS = frozenset(
    ("coco_mask_metrics", LVIS_SET, "tide_mask_metrics", *(n for n, o in VOC_SETS.items() if o.get("masks")))
)
"""Metric sets that compare masks."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegisteredMetricSet:
    """A set of metrics from outside the package.

    Attributes:
        prefix: prefix of its metric names, before an underscore.
        compute: (images, a sequence of `evaluation.results.EvaluatedImage`; class in [0, C) to name) -> name
            to value, NaN if undefined. Without images it gives the names.
    """

    prefix: str
    compute: Callable[[Any, Mapping[int, str]], Mapping[str, float]]


REGISTERED_SETS: dict[str, RegisteredMetricSet] = {}
"""Name in `eval_config.metrics_set` to metric set; `register_metric_set` adds to it."""


def register_metric_set(
    name: str, *, prefix: str, compute: Callable[[Any, Mapping[int, str]], Mapping[str, float]]
) -> None:
    """Register a metric set from outside the package, for configs and thresholds; see `RegisteredMetricSet`.

    Registering needs no TensorFlow; `compute` may import it when it is called.

    Raises:
        ValueError: when the name or the prefix is taken.
    """
    prefixes = {*SET_PREFIXES.values(), *(known.prefix for known in REGISTERED_SETS.values())}
    reserved = {metric_prefix(begin) for begin in _OF_CLASSES}
    reserved |= {metric_prefix(metrics[0]) for metrics in _LISTED.values()}
    if name in (*MEASURED, *REGISTERED_SETS):
        raise ValueError(
            f"expected a new name for a set of metrics, found {name!r}, which is taken; rename it"
        )
    if prefix in prefixes | reserved:
        raise ValueError(f"expected a new prefix for metrics, found {prefix!r}, which is taken; change it")
    REGISTERED_SETS[name] = RegisteredMetricSet(prefix=prefix, compute=compute)


KEYPOINT_SET = "coco_keypoint_metrics"


def measured_sets(message: EvalConfig) -> tuple[str, ...]:
    """Return the metric sets of an `eval_config`: those of `metrics_set`, then of `parameterized_metric`."""
    asked = any(metric.HasField(KEYPOINT_SET) for metric in message.parameterized_metric)
    more = (KEYPOINT_SET,) if asked and KEYPOINT_SET not in message.metrics_set else ()
    return (*message.metrics_set, *more)


def check_metric_names(names: Iterable[str], message: EvalConfig, where: str) -> None:
    """Refuse metrics that no evaluation gives, before a model is trained.

    Class names are checked later, with the label map.

    Raises:
        ConfigError: naming the nearest metric.
    """
    sets = measured_sets(message)
    prefixes = [SET_PREFIXES[name] for name in sets if name in SET_PREFIXES]
    parts = ("Precision/mAP@", "PerformanceByCategory/AP@")
    own = (f"{REGISTERED_SETS[name].prefix}_" for name in sets if name in REGISTERED_SETS)
    listed = [_LISTED[name] for name in sets if name in _LISTED]
    shapes = [SHAPE_METRICS[name] for name in sets if name in SHAPE_METRICS]
    exact = {*COCO_METRICS, *itertools.chain(*listed), *(LVIS_METRICS if LVIS_SET in sets else ())}
    of_shapes = (p.replace("DetectionBoxes", metric_prefix(of[0])) for of in shapes for p in _OF_CLASSES)
    begins = (*_OF_CLASSES, *of_shapes, *(f"{prefix}_{part}" for prefix in prefixes for part in parts), *own)
    for name in names:
        if name in exact or name.startswith(begins):
            continue
        near = near_names(name[:100], COCO_METRICS)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"one is {COCO_METRICS[0]!r}"
        known = {**SET_PREFIXES, **{other: found.prefix for other, found in REGISTERED_SETS.items()}}
        known |= {other: metric_prefix(of[0]) for other, of in _LISTED.items()}
        missing = [LVIS_SET] if name in LVIS_METRICS else []
        missing += [s for s, prefix in known.items() if name.startswith(f"{prefix}_") and s not in sets]
        if missing:
            hint = f"add {missing[0]} to eval_config.metrics_set"
        raise ConfigError(f"expected a metric of the evaluation, found {name[:100]!r}; {hint}", where=where)
