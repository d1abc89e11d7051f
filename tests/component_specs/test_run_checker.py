from component_specs import ExampleGenJob, RunCheckerJob
from tests.component_specs.contract import carried, wiring


def test_what_it_takes_and_gives():
    assert wiring("run_checker", RunCheckerJob) == {}


def test_thresholds_may_hold_placeholders_anywhere_and_are_a_text_still():
    template = '{"mAP": {"lower_bound": 0.[[ScheduledTime.02]]}}'
    assert carried(RunCheckerJob, thresholds=template)["thresholds"] == template


def test_it_takes_splits_as_example_gen_does():
    assert carried(RunCheckerJob)["splits"] == carried(ExampleGenJob)["splits"]
    given = {"train": "a.json"}
    assert carried(RunCheckerJob, splits=given)["splits"] == carried(ExampleGenJob, splits=given)["splits"]
