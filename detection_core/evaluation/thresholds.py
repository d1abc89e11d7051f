"""What a detector must reach to be blessed."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from detection_core.artifacts.coco_names import is_measured
from detection_core.artifacts.evaluation import ThresholdVerdict
from detection_core.errors import ConfigError

# A change that differs from its bound by rounding only is not held against a model.
_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Threshold:
    """One demand on one metric.

    Attributes:
        metric: its full name.
        kind: `lower_bound`, `upper_bound` or `min_change`, a key of `KINDS`.
        bound: the least or largest value; for `min_change` the least difference from the baseline, which is
            negative where a loss is accepted.
    """

    metric: str
    kind: str
    bound: float


def parse_thresholds(spec: Mapping[str, Any], known: Iterable[str], where: str = "") -> tuple[Threshold, ...]:
    """Read thresholds as they stand in settings.

    Args:
        spec: metric to {"lower_bound": x, "upper_bound": x, "min_change": x}, each of the three optional.
        known: names of the metrics that the evaluation gives.
        where: file or field that the thresholds are from.

    Raises:
        ConfigError: for an unknown metric or kind, naming the nearest, or a bound that is not a number.
    """
    known = list(known)
    found = []
    for metric, demands in spec.items():
        _require_known(metric, known, "metric", where)
        if not isinstance(demands, Mapping) or not demands:
            raise ConfigError(
                f"{metric}: expected at least one of {', '.join(KINDS)} with a number, found {demands!r}",
                where=where,
            )
        for kind, bound in demands.items():
            _require_known(kind, list(KINDS), f"kind of threshold of {metric}", where)
            number = _number(bound)
            if number is None:
                raise ConfigError(f"{metric}.{kind}: expected a number, found {bound!r:.100}", where=where)
            found.append(Threshold(metric=metric, kind=kind, bound=number))
    return tuple(found)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return None
    return number if math.isfinite(number) else None


def _require_known(name: str, known: Sequence[str], what: str, where: str) -> None:
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(
        f"unknown {what} {name!r}; {hint}Known: {', '.join(list(known)[:16])}{', ...' * (len(known) > 16)}",
        where=where,
    )


def judge(
    thresholds: Sequence[Threshold],
    metrics: Mapping[str, float],
    baseline: Mapping[str, float] | None,
) -> tuple[ThresholdVerdict, ...]:
    """Hold metrics against thresholds.

    A metric that is missing, not a number, or COCO's -1 for "nothing to measure" passes nothing. Without a
    baseline, or where the baseline's own metric is not a number, every `min_change` passes.

    Args:
        thresholds: what is demanded.
        metrics: of the detector.
        baseline: of the baseline; None on a first run.
    """
    return tuple(_judge(t, _known(metrics, t.metric), _known(baseline or {}, t.metric)) for t in thresholds)


def _known(metrics: Mapping[str, float], name: str) -> float | None:
    value = metrics.get(name)
    return float(value) if value is not None and is_measured(value) else None


def _judge(threshold: Threshold, value: float | None, baseline: float | None) -> ThresholdVerdict:
    if value is None:
        passed = False
        text = f"{threshold.metric} could not be measured: no objects of that kind in the split"
    else:
        passed, reason = KINDS[threshold.kind](value, threshold.bound, baseline)
        text = f"{threshold.metric} is {value:.4f}, {reason}"
    return ThresholdVerdict(
        metric=threshold.metric,
        kind=threshold.kind,
        bound=threshold.bound,
        value=value,
        baseline=baseline,
        passed=passed,
        text=text,
    )


def _lower_bound(value: float, bound: float, baseline: float | None) -> tuple[bool, str]:
    passed = value >= bound
    return passed, f"at least {bound:g} as demanded" if passed else f"below {bound:g}"


def _upper_bound(value: float, bound: float, baseline: float | None) -> tuple[bool, str]:
    passed = value <= bound
    return passed, f"at most {bound:g} as demanded" if passed else f"above {bound:g}"


def _min_change(value: float, bound: float, baseline: float | None) -> tuple[bool, str]:
    if baseline is None:
        return True, "and there is no baseline to compare with"
    change = value - baseline
    passed = change >= bound - _ROUNDING
    demand = f"at least {bound:+g} as demanded" if passed else f"less than {bound:+g}"
    return passed, f"the baseline's {baseline:.4f}: a change of {change:+.4f}, {demand}"


KINDS: dict[str, Callable[[float, float, float | None], tuple[bool, str]]] = {
    "lower_bound": _lower_bound,
    "upper_bound": _upper_bound,
    "min_change": _min_change,
}


def reasons_of(verdicts: Sequence[ThresholdVerdict]) -> tuple[str, ...]:
    """Return what speaks against a detector, or for it where nothing speaks against it."""
    against = tuple(v.text for v in verdicts if not v.passed)
    return against or tuple(v.text for v in verdicts) or ("no thresholds are set",)
