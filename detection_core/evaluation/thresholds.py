"""Thresholds that a detector must pass to be blessed."""

import dataclasses
import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from detection_core.artifacts.evaluation import ThresholdVerdict, is_measured
from detection_core.errors import ConfigError
from detection_core.evaluation.bootstrap import LEVEL, Resampled

# A change may miss its bound by a rounding error.
_ROUNDING = 1e-9
CONFIDENCE = "confidence"
UPPER_BOUND, MIN_CHANGE = "upper_bound", "min_change"
LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.5, 0.99


@dataclasses.dataclass(frozen=True, kw_only=True)
class Threshold:
    """One threshold of one metric.

    Attributes:
        metric: its full name.
        kind: `lower_bound`, `upper_bound` or `min_change`, a key of `KINDS`.
        bound: the least or largest value. For `min_change`, the least difference from the baseline; a
            negative one accepts a loss.
        confidence: such as 0.95: fail only if the bootstrap interval of that level lies beyond the bound.
            None: the measured values decide, however small the split.
    """

    metric: str
    kind: str
    bound: float
    confidence: float | None = None


def parse_thresholds(spec: Mapping[str, Any], known: Iterable[str], where: str = "") -> tuple[Threshold, ...]:
    """Parse thresholds from settings.

    Args:
        spec: metric to {"lower_bound": x, "upper_bound": x, "min_change": x}, each optional, and
            "confidence", which applies to all of them.
        known: names of the metrics of the evaluation.
        where: source file or field of the thresholds.

    Raises:
        ConfigError: for an unknown metric or kind, naming the nearest, or a bound or confidence that is not
            valid.
    """
    known = list(known)
    found = []
    for metric, demands in spec.items():
        _require_known(metric, known, "metric", where)
        if not isinstance(demands, Mapping) or not set(demands) - {CONFIDENCE}:
            raise ConfigError(
                f"{metric}: expected at least one of {', '.join(KINDS)} with a number, found {demands!r}",
                where=where,
            )
        confidence = _confidence(demands, metric, where)
        for kind, bound in demands.items():
            if kind == CONFIDENCE:
                continue
            _require_known(kind, [*KINDS, CONFIDENCE], f"kind of threshold of {metric}", where)
            number = _number(bound)
            if number is None:
                raise ConfigError(f"{metric}.{kind}: expected a number, found {bound!r:.100}", where=where)
            found.append(Threshold(metric=metric, kind=kind, bound=number, confidence=confidence))
    return tuple(found)


def _confidence(demands: Mapping[str, Any], metric: str, where: str) -> float | None:
    if CONFIDENCE not in demands:
        return None
    number = _number(demands[CONFIDENCE])
    if number is None or not LEAST_CONFIDENCE <= number <= MOST_CONFIDENCE:
        raise ConfigError(
            f"{metric}.{CONFIDENCE}: expected a level from {LEAST_CONFIDENCE:g} to {MOST_CONFIDENCE:g}, such"
            f" as 0.95, found {demands[CONFIDENCE]!r:.100}",
            where=where,
        )
    return number


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer of more than 308 digits
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
    resampled: Mapping[str, Resampled] = MappingProxyType({}),
) -> tuple[ThresholdVerdict, ...]:
    """Compare metrics with thresholds.

    A metric that is missing, NaN, or COCO's -1 for "nothing to measure" fails. Without a baseline, or if the
    baseline's metric is not a number, every `min_change` passes.

    Args:
        thresholds: the thresholds to check.
        metrics: of the detector.
        baseline: of the baseline; None on a first run.
        resampled: metrics on resampled splits. A missing one has no interval; its measured value then decides
            even if a confidence is set.
    """
    return tuple(
        _judge(t, _known(metrics, t.metric), _known(baseline or {}, t.metric), resampled.get(t.metric))
        for t in thresholds
    )


def _known(metrics: Mapping[str, float], name: str) -> float | None:
    value = metrics.get(name)
    return float(value) if value is not None and is_measured(value) else None


def _judge(
    threshold: Threshold, value: float | None, baseline: float | None, resampled: Resampled | None
) -> ThresholdVerdict:
    interval = None
    within_noise = False
    if value is None:
        passed = False
        text = f"{threshold.metric} could not be measured: no objects of that kind in the split"
    else:
        passed, reason = KINDS[threshold.kind](value, threshold.bound, baseline)
        found = resampled.interval(threshold.confidence or LEVEL) if resampled else None
        if found and threshold.kind != MIN_CHANGE:
            interval = found.value
        elif found and baseline is not None:
            interval = found.change
        if interval:
            low, high = interval
            may_hold = low <= threshold.bound if threshold.kind == UPPER_BOUND else high >= threshold.bound
            passed = passed or (threshold.confidence is not None and may_hold)
            within_noise = low <= threshold.bound <= high
        text = f"{threshold.metric} is {value:.4f}, {reason}{_noise(threshold, interval, within_noise)}"
    return ThresholdVerdict(
        metric=threshold.metric,
        kind=threshold.kind,
        bound=threshold.bound,
        value=value,
        baseline=baseline,
        confidence=threshold.confidence,
        interval=interval,
        within_noise=within_noise,
        passed=passed,
        text=text,
    )


def _noise(threshold: Threshold, interval: tuple[float, float] | None, within_noise: bool) -> str:
    """Return a clause if the verdict is within the noise of the split."""
    if interval is None or not within_noise:
        return ""
    level = threshold.confidence or LEVEL
    low, high = interval
    return f"; within the noise of this split ({100 * level:g} % interval {low:+.4f}..{high:+.4f})"


def _min_change(value: float, bound: float, baseline: float | None) -> tuple[bool, str]:
    if baseline is None:
        return True, "and there is no baseline to compare with"
    change = value - baseline
    passed = change >= bound - _ROUNDING
    demand = f"at least {bound:+g} as demanded" if passed else f"less than {bound:+g}"
    return passed, f"the baseline's {baseline:.4f}: a change of {change:+.4f}, {demand}"


KINDS: dict[str, Callable[[float, float, float | None], tuple[bool, str]]] = {
    "lower_bound": lambda value, bound, baseline: (
        (True, f"at least {bound:g} as demanded") if value >= bound else (False, f"below {bound:g}")
    ),
    UPPER_BOUND: lambda value, bound, baseline: (
        (True, f"at most {bound:g} as demanded") if value <= bound else (False, f"above {bound:g}")
    ),
    MIN_CHANGE: _min_change,
}


def reasons_of(verdicts: Sequence[ThresholdVerdict]) -> tuple[str, ...]:
    """Return the reasons against a detector; if there are none, those for it."""
    against = tuple(v.text for v in verdicts if not v.passed)
    return against or tuple(v.text for v in verdicts) or ("no thresholds are set",)
