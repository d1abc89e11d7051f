import itertools
import math

import numpy as np
import pytest

from detection_core.artifacts.coco_names import COCO_METRICS, MAP, MAP_50
from detection_core.errors import ConfigError
from detection_core.evaluation.bootstrap import Resampled
from detection_core.evaluation.thresholds import judge, parse_thresholds, reasons_of
from tests.support.cases import cases, refused


def verdict(demands, value, baseline=None, resampled=None):
    metrics = {} if value is None else {MAP: value}
    baselines = None if baseline is None else {MAP: baseline}
    (found,) = judge(parse_thresholds({MAP: demands}, COCO_METRICS), metrics, baselines, resampled or {})
    return found


@cases(
    ({"lower_bound": 0.5}, 0.5, None, True),
    ({"lower_bound": 0.5}, 0.4999, None, False),
    ({"upper_bound": 0.5}, 0.5, None, True),
    ({"upper_bound": 0.5}, 0.5001, None, False),
    ({"min_change": 0.0}, 0.5, 0.5, True),
    ({"min_change": 0.0}, 0.5, 0.51, False),
    ({"min_change": 0.02}, 0.52, 0.5, True),  # 0.52 - 0.5 < 0.02 in floating point
    ({"min_change": -0.02}, 0.48, 0.5, True),
    ({"min_change": -0.02}, 0.47, 0.5, False),
    ({"min_change": 0.1}, 0.0, None, True),  # first run
    ({"min_change": 0.1}, 0.3, math.nan, True),
    ({"min_change": 0.1}, 0.3, -1.0, True),
)
def test_bounds(*, demands, value, baseline, passed):
    assert verdict(demands, value, baseline).passed is passed


def test_what_is_not_a_number_never_passes():
    demanded = {"lower_bound": -5}, {"upper_bound": 5}, {"min_change": -5}
    for demands, value in itertools.product(demanded, (None, math.nan, math.inf, -1.0)):
        found = verdict(demands, value, 0.1)
        assert not found.passed and found.value is None, (demands, value)
        assert "could not be measured" in found.text


def test_texts():
    assert verdict({"lower_bound": 0.85}, 0.8123).text == f"{MAP} is 0.8123, below 0.85"
    assert verdict({"min_change": -0.01}, 0.7, 0.75).text == (
        f"{MAP} is 0.7000, the baseline's 0.7500: a change of -0.0500, less than -0.01"
    )
    text = resampled_verdict({"min_change": -0.01}, 0.48, 0.5, 0.1).text
    assert text.endswith("less than -0.01; within the noise of this split (95 % interval -0.0675..+0.0275)")
    assert "noise" not in resampled_verdict({"min_change": -0.01}, 0.40, 0.5, 0.1).text


def resampled_verdict(demands, value, baseline, spread):
    """Judge a detector whose change, or value, spreads evenly over a width on resampled splits."""
    around = np.linspace(-spread / 2, spread / 2, 1001)
    before = None if baseline is None else np.full(1001, baseline)
    resampled = Resampled(values=value + around, baseline=before, images=1_000_000)
    return verdict(demands, value, baseline, {MAP: resampled})


@cases(
    ({"min_change": -0.01}, 0.48, 0.5, False, True),  # the number decides; the noise is told
    ({"min_change": -0.01, "confidence": 0.95}, 0.48, 0.5, True, True),
    ({"min_change": -0.01, "confidence": 0.95}, 0.40, 0.5, False, False),
    ({"min_change": -0.01, "confidence": 0.5}, 0.46, 0.5, False, False),  # half of the width
    ({"min_change": -0.01, "confidence": 0.95}, 0.60, 0.5, True, False),
    ({"lower_bound": 0.5, "confidence": 0.95}, 0.48, None, True, True),
    ({"lower_bound": 0.5, "confidence": 0.95}, 0.40, None, False, False),
    ({"upper_bound": 0.5, "confidence": 0.95}, 0.52, None, True, True),
    ({"upper_bound": 0.5, "confidence": 0.95}, 0.60, None, False, False),
)
def test_with_a_confidence_only_what_is_significant_fails(*, demands, value, baseline, passed, within_noise):
    found = resampled_verdict(demands, value, baseline, 0.1)
    assert (found.passed, found.within_noise) == (passed, within_noise)
    assert found.confidence == demands.get("confidence")


def test_a_confidence_needs_an_interval_and_demands_nothing_alone():
    found = resampled_verdict({"min_change": 0.1}, 0.5, None, 0.1)
    assert found.passed and found.interval is None
    with pytest.raises(ConfigError, match="at least one of lower_bound"):
        parse_thresholds({MAP: {"confidence": 0.95}}, COCO_METRICS)
    assert not verdict({"lower_bound": 0.5, "confidence": 0.95}, 0.49).passed


def test_all_demands_are_judged_and_what_speaks_against_comes_alone():
    spec = {MAP: {"lower_bound": 0.1, "min_change": 0}, MAP_50: {"upper_bound": 1}}
    found = judge(parse_thresholds(spec, COCO_METRICS), {MAP: 0.2, MAP_50: 0.3}, {MAP: 0.4})
    lower, smaller, upper = ((v.kind, v.passed, v.baseline) for v in found)
    assert (lower, smaller) == (("lower_bound", True, 0.4), ("min_change", False, 0.4))
    assert upper == ("upper_bound", True, None)

    def verdicts(value):
        spec = {MAP: {"lower_bound": 0.5, "upper_bound": 0.9}}
        return judge(parse_thresholds(spec, COCO_METRICS), {MAP: value}, None)

    assert reasons_of(verdicts(0.4)) == (f"{MAP} is 0.4000, below 0.5",)
    assert len(reasons_of(verdicts(0.6))) == 2
    assert reasons_of(()) == ("no thresholds are set",)


@cases(
    ({"mAP@.50": {"lower_bound": 1}}, "did you mean 'DetectionBoxes_Precision/mAP@"),
    ({"DetectionBoxes_Precison/mAP": {"lower_bound": 1}}, "did you mean 'DetectionBoxes_Precision/mAP'?"),
    ({MAP: {"lower_bond": 1}}, "did you mean 'lower_bound'"),
    ({MAP: 0.5}, "expected at least one of lower_bound, upper_bound, min_change"),
    ({MAP: {}}, "expected at least one of"),
    ({MAP: {"lower_bound": "0.5"}}, "expected a number, found '0.5'"),
    ({MAP: {"lower_bound": True}}, "expected a number, found True"),
    ({MAP: {"lower_bound": 10**400}}, "expected a number, found 1000"),
    ({MAP: {"lower_bound": math.nan}}, "expected a number, found nan"),
    *[
        ({MAP: {"min_change": 0, "confidence": level}}, "mAP.confidence: expected a level from 0.5 to 0.99")
        for level in (95, 0, 1, "0.95", None, True)
    ],
)
def test_mistakes_in_settings(*, spec, message):
    error = refused(ConfigError, r"^s\.yaml", parse_thresholds, spec, COCO_METRICS, where="s.yaml")
    assert message in str(error)
