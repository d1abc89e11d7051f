from component_specs import ExampleGenJob, RunCheckerJob
from tests.component_specs.contract import carried


def test_thresholds_may_hold_placeholders_anywhere_and_are_a_text_still():
    template = '{"mAP": {"lower_bound": 0.[[ScheduledTime.02]]}}'
    assert carried(RunCheckerJob, thresholds=template)["thresholds"] == template
    assert carried(RunCheckerJob)["splits"] == carried(ExampleGenJob)["splits"]
    given = {"train": "a.json"}
    assert carried(RunCheckerJob, splits=given)["splits"] == carried(ExampleGenJob, splits=given)["splits"]
