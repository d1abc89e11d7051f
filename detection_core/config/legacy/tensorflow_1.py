"""Names in TensorFlow 1 configs that were renamed or removed, and their replacements."""

from collections.abc import Mapping, Sequence
from typing import Any

from detection_core.bounded.plain_yaml import module_table

_TABLE: Mapping[str, Any] = module_table(__file__)
COUNTERPARTS: Mapping[str, str] = {name: f"{name}_keras" for name in _TABLE["with_counterpart"]}
"""TensorFlow 1 extractors -> their names in TensorFlow 2."""

_TRAIN = "weights of TensorFlow 1 fit, but train with them before you use them"
_HALVED = f"TensorFlow 2 halves the regions in the second stage, which TensorFlow 1 did not; {_TRAIN}"
SECOND_STAGES: Mapping[str, str] = {
    **{f"faster_rcnn_resnet{depth}_keras": _HALVED for depth in (50, 101, 152)},
    "faster_rcnn_inception_resnet_v2_keras": "TensorFlow 2 pads the regions in the second stage, which"
    f" TensorFlow 1 did not; {_TRAIN}",
}
"""Counterparts that compute something else from the same weights, and what to do about it."""

KEPT: Sequence[str] = _TABLE["kept"]
"""TensorFlow 1 extractors that TensorFlow 2 lacks, and that are built here under their name."""

WITHOUT_COUNTERPART: Mapping[str, str] = _TABLE["without_counterpart"]
"""TensorFlow 1 extractors that are not built -> nearest replacement, if possible with the same anchors."""

RENAMED_METRICS: Mapping[str, str] = _TABLE["renamed_metrics"]
"""Old names of the sets in `eval_config.metrics_set` -> current names."""

BATCH_NORM_TRAINABLE = "model.ssd.feature_extractor.batch_norm_trainable"
"""A field of one-stage configs of 2018 that was removed from the schema in the same year."""

_BY_CONVERT = "`detflow config convert` writes it"


def without_counterpart(extractor: str) -> str:
    """Return the advice for an extractor of `WITHOUT_COUNTERPART`."""
    return (
        f"expected an extractor that TensorFlow 2 has, found {extractor!r}, which has no counterpart; "
        f"set type: {WITHOUT_COUNTERPART[extractor]!r}, which comes nearest, and train again"
    )


def with_counterpart(extractor: str) -> str:
    """Return the advice for an extractor of `COUNTERPARTS`."""
    return (
        f"expected an extractor that TensorFlow 2 has, found {extractor!r}; its name is "
        f"{COUNTERPARTS[extractor]} now: {_BY_CONVERT}"
    )


def renamed_metrics(name: str) -> str:
    """Return the advice for a metric set of `RENAMED_METRICS`."""
    return f"its name is {RENAMED_METRICS[name]} now: {_BY_CONVERT}"


REMOVED_FIELDS: Mapping[tuple[str, str], str] = {
    (message, name): reason
    for message, fields in _TABLE["removed_fields"].items()
    for name, reason in fields.items()
}
"""Message and name of a field that this schema lacks -> the reason, and what to do."""
