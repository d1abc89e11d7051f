from __future__ import annotations

import json
import math

from detection_core.evaluation.coco_metrics import COCO_METRICS, MAP
from detection_core.evaluation.eval_report import EvalReport, format_report, reasons_of
from detection_core.evaluation.thresholds import judge, parse_thresholds


def verdicts(value):
    spec = {MAP: {"lower_bound": 0.5, "upper_bound": 0.9}}
    return judge(parse_thresholds(spec, COCO_METRICS), {MAP: value}, None)


def test_what_speaks_against_comes_alone():
    assert reasons_of(verdicts(0.4)) == (f"{MAP} is 0.4000, below 0.5",)
    assert len(reasons_of(verdicts(0.6))) == 2
    assert reasons_of(()) == ("no thresholds are set",)


def test_json_without_what_is_not_a_number():
    report = EvalReport(
        split="test",
        images=3,
        metrics={MAP: math.nan, "b": 0.5, "c": -1.0},
        baseline=None,
        thresholds=verdicts(math.nan),
        blessed=False,
        reasons=("x",),
        seconds_per_image=0.1,
    )
    data = json.loads(format_report(report), parse_constant=lambda name: 1 / 0)
    assert data["metrics"] == {MAP: None, "b": 0.5, "c": -1.0}
    assert data["baseline"] is None
    assert data["thresholds"][0] == {
        "metric": MAP,
        "kind": "lower_bound",
        "bound": 0.5,
        "value": None,
        "baseline": None,
        "passed": False,
        "text": f"{MAP} could not be measured: no objects of that kind in the split",
    }
