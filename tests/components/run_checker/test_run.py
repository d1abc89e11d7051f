"""RunChecker by itself; the workflow's view of it is in tests/pipeline/test_run_checks.py."""

import dataclasses

import pytest

from component_specs import RunCheckerJob
from component_specs.example_gen import Spans
from component_specs.kfp_outputs import KFP_OUTPUTS
from components.publishing.destination import PushDestination
from components.run_checker.run import FILLED, HANDED_ON, run
from detection_core.artifacts.published import PublishedVersion
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from tests.support.dataset_files import Coco

SPLITS = {"train": 1.0}


@pytest.fixture
def job(tmp_path):
    Coco(tmp_path / "data").write()
    return RunCheckerJob(
        data_path=str(tmp_path / "data"), push_destination=str(tmp_path / "pushed"), splits=SPLITS
    )


def test_it_returns_what_its_outputs_promise(job):
    found = run(job)
    assert set(found) == set(KFP_OUTPUTS["run_checker"].results)
    assert found["data_spans"] == Spans() and found["resolved_thresholds"] == {}
    assert found["resolved_data_path"] == job.data_path and found["baseline_version"] == ""
    assert set(HANDED_ON) < set(FILLED)


def test_placeholders_are_filled_before_a_text_is_read(job, tmp_path):
    given = {"work_dir": f"{tmp_path}/[[RunUUID]]", "scheduled_time": "2026-11-21T03:00:00Z", "run_id": "r-1"}
    bound = '{"mAP": {"lower_bound": 0.[[ScheduledTime.02]]}}'
    found = run(dataclasses.replace(job, **given, thresholds=bound))
    assert found["resolved_thresholds"] == {"mAP": {"lower_bound": 0.21}}
    assert found["resolved_work_dir"] == f"{tmp_path}/r-1"
    with pytest.raises(ConfigError, match=r"thresholds: no placeholder \[\[ScheduledTme\]\]; did you mean"):
        run(dataclasses.replace(job, thresholds='{"mAP": {"lower_bound": [[ScheduledTme]]}}'))


def test_equal_requests_have_one_key_and_every_other_request_another(job):
    first = run(job)["run_key"]
    assert run(job)["run_key"] == first

    def key(**changes):
        return run(dataclasses.replace(job, **changes))["run_key"]

    assert key(push_destination=f"{job.push_destination}2", work_dir="/w", run_id="x") == first
    others = {key(train_steps=5), key(learning_rate=0.1), key(thresholds='{"mAP": {}}'), key(request="other")}
    assert len(others | {first}) == 5


def test_a_repeated_run_is_given_the_values_of_the_first(job, tmp_path):
    first = run(job)
    assert run(job)["push_token"] != first["push_token"], "nothing is published yet"
    files.write_text(str(tmp_path / "source" / "saved_model.pb"), "graph")
    version = PublishedVersion(number=0, run_key=first["run_key"], push_token=first["push_token"])
    published = PushDestination(job.push_destination).publish(str(tmp_path / "source"), "", version, 0)
    assert run(job) == first
    other = run(dataclasses.replace(job, train_steps=3))
    assert other["baseline_version"] == str(published.number) and other["push_token"] != first["push_token"]


def test_data_that_are_not_there_stop_the_run(job, tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        run(dataclasses.replace(job, data_path=str(tmp_path / "nowhere")))
    with pytest.raises(ConfigError, match="splits"):
        run(dataclasses.replace(job, splits={"train": 0.5}))
