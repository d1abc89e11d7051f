import json
import math

from detection_core.artifacts.evaluation import METRICS, EvalReport, finite
from detection_core.evaluation.thresholds import judge, parse_thresholds

VALUES = {"a": math.nan, "b": 0.5, "c": -1.0}


def test_json_without_what_is_not_a_number():
    verdicts = judge(parse_thresholds({"a": {"lower_bound": 0.5}}, VALUES), VALUES, None)
    said = {"split": "test", "images": 3, "blessed": False, "reasons": ("x",)}
    report = EvalReport(metrics=finite(VALUES), thresholds=verdicts, **said)
    data = json.loads(METRICS.format(report), parse_constant=lambda name: 1 / 0)
    assert data["metrics"] == {"a": None, "b": 0.5, "c": -1.0}
    assert data["baseline"] is None and data["schema_version"] == 1
    text = "a could not be measured: no objects of that kind in the split"
    said = {"metric": "a", "kind": "lower_bound", "bound": 0.5, "within_noise": False, "passed": False}
    unknown = dict.fromkeys(("value", "baseline", "confidence", "interval"))
    assert data["thresholds"][0] == {**said, **unknown, "text": text}
    assert METRICS.parse(METRICS.format(report), "metrics.json") == report
