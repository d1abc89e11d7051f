import pytest

from component_specs import EvaluatorJob
from component_specs.evaluator import THRESHOLDS
from tests.component_specs.contract import carried
from tests.support.cases import cases


def test_equal_thresholds_are_one_text_in_whatever_order_they_were_written():
    bounds = {"mAP": {"min_change": 0.0, "lower_bound": 0.5}, "AP": {"upper_bound": 1}}
    text = '{"AP": {"upper_bound": 1}, "mAP": {"lower_bound": 0.5, "min_change": 0.0}}'
    assert carried(EvaluatorJob, thresholds=bounds)["thresholds"] == text
    assert carried(EvaluatorJob)["thresholds"] == "{}" and carried(EvaluatorJob)["pictures"] == -1
    assert THRESHOLDS.decode(text) == bounds


@cases("[]", '{"mAP": 0.3}', '{"mAP": [0.3]}')
def test_a_metric_without_bounds_is_refused(*, text):
    with pytest.raises(ValueError, match="lower_bound"):
        THRESHOLDS.decode(text)
