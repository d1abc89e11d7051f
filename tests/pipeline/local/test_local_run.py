import dataclasses
import logging
import os
import sys
import types
from unittest import mock

import pytest

from detection_core.artifacts.run_info import StepInfo
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from pipeline.local import local_run
from pipeline.local.local_run import RunOptions, run_locally
from pipeline.local.workspace import Workspace
from pipeline.settings.settings_file import load_settings
from tests.support.cases import refused


@pytest.fixture
def settings(digits_settings, tmp_path):
    return load_settings(digits_settings, [f"workspace={tmp_path}/workspace"])


def test_a_run_without_data_is_recorded_as_failed_before_any_step_and_a_second_one_follows(settings):
    refused(DataError, "", run_locally, settings, RunOptions(parameters={"train_steps": 7}))
    (record,) = Workspace(settings.workspace).runs()
    assert record.status == "failed" and record.finished >= record.started
    assert {step.state for step in record.steps} == {"not run"} and record.checks == {}
    assert record.parameters == {"train_steps": 7}
    folder = Workspace(settings.workspace).run_dir(record.run_id)
    assert load_settings(f"{folder}/settings.yaml", check_files=False) == settings
    names = {os.path.basename(path) for path in files.list_matching(folder, "*")}
    assert {"run.json", "settings.yaml", "log.txt"} <= names
    refused(DataError, "", run_locally, settings)
    first, second = Workspace(settings.workspace).runs()
    assert first.run_id < second.run_id and not Workspace(settings.workspace).is_locked()


def test_the_step_that_was_interrupted_has_its_number_and_its_time_and_the_run_was_stopped(
    settings, monkeypatch, caplog
):
    caplog.set_level(logging.INFO)

    def run(pipeline, dag, run_id, observe):
        for number, step in enumerate(dag.steps):
            info = StepInfo(id=step.id, component=step.component, state="running", seconds=0.0)
            observe(info)
            if number == 2:
                observe(dataclasses.replace(info, state="not run", seconds=12.34))
                raise KeyboardInterrupt
            observe(dataclasses.replace(info, state="executed", seconds=1.0))

    backend = types.SimpleNamespace(build_tfx_pipeline=lambda *_: None, run_tfx_pipeline=run)
    monkeypatch.setitem(sys.modules, "pipeline.local.tfx_backend", backend)
    monkeypatch.setattr(local_run, "run_checks", lambda *_, **__: {})
    monkeypatch.setattr(local_run, "encode_results", lambda *_: {})
    refused(KeyboardInterrupt, "", run_locally, settings)
    *_, began, ended = [r.getMessage() for r in caplog.records if r.getMessage().startswith("step | ")]
    assert ended == f"{began} interrupted after 12.3 s" and "step | 3/" in began
    assert [record.status for record in Workspace(settings.workspace).runs()] == ["stopped"]


def test_a_placeholder_that_nobody_fills_is_refused_before_there_is_a_workspace(digits_settings, tmp_path):
    overrides = [f"workspace={tmp_path}/workspace", "data.shards_uri=/shards/[[RunUUID]]"]
    refused(ConfigError, "example_gen: shards_uri", run_locally, load_settings(digits_settings, overrides))
    assert not (tmp_path / "workspace").exists()


def test_checks_get_what_is_given_for_this_run_alone(settings, monkeypatch):
    checks = mock.Mock(side_effect=DataError("enough"))
    monkeypatch.setattr(local_run, "run_checks", checks)
    options = RunOptions(parameters={"train_steps": 7, "span": "3"}, scheduled_time="2026-11-21T03:00:00Z")
    refused(DataError, "enough", run_locally, settings, options)
    seen = checks.call_args.kwargs
    assert (seen["train_steps"], seen["span"]) == (7, "3")
    assert seen["scheduled_time"] == "2026-11-21T03:00:00Z"
    record = Workspace(settings.workspace).run()
    assert seen["run_id"] == record.run_id
    refused(DataError, "enough", run_locally, settings, RunOptions())
    assert checks.call_args.kwargs["scheduled_time"] == Workspace(settings.workspace).run().started


def test_a_failed_run_has_a_report_and_one_that_cannot_be_drawn_hides_nothing(settings, caplog):
    write = mock.Mock()
    refused(DataError, "", run_locally, settings, RunOptions(write_report=write))
    ((record, path),) = [call.args for call in write.call_args_list]
    assert record.status == "failed" and path.endswith(f"{record.run_id}/report.html")
    with pytest.raises(DataError):
        run_locally(settings, RunOptions(write_report=mock.Mock(side_effect=ValueError("cannot draw"))))
    assert "detflow report" in caplog.text
