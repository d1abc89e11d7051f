"""Runs on this machine: workspace, summary and live report."""

import dataclasses
import json
import logging
import os
import sys
import threading
import types
from unittest import mock

import pytest

from component_specs.example_gen import SPANS, Spans
from detection_core.artifacts.run_info import RUN, StepInfo
from detection_core.errors import ConfigError, DataError, StorageError
from detection_core.storage import files
from pipeline.extras import Extra
from pipeline.local import local_run
from pipeline.local.local_run import LiveReport, RunOptions, run_locally
from pipeline.local.run_summary import summarise
from pipeline.local.workspace import Workspace
from pipeline.settings.settings_file import load_settings
from tests.support.cases import refused
from tests.support.run_records import record, step


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


def test_an_interrupted_step_has_its_number_and_time_and_the_run_was_stopped(settings, monkeypatch, caplog):
    caplog.set_level(logging.INFO)

    def run(dag, checks, workspace, run_id, observe):
        for number, node in enumerate(dag.steps):
            info = StepInfo(id=node.id, component=node.component, state="running", seconds=0.0)
            observe(info)
            if number == 2:
                observe(dataclasses.replace(info, state="not run", seconds=12.34))
                raise KeyboardInterrupt
            observe(dataclasses.replace(info, state="executed", seconds=1.0))

    backend = types.SimpleNamespace(run_dag=run)
    for name in ("tfx_backend", "plain_backend"):
        monkeypatch.setitem(sys.modules, f"pipeline.local.{name}", backend)
    monkeypatch.setattr(local_run, "run_checks", lambda *_, **__: {})
    monkeypatch.setattr(local_run, "encode_results", lambda *_: {})
    refused(KeyboardInterrupt, "", run_locally, settings)
    *_, began, ended = [r.getMessage() for r in caplog.records if r.getMessage().startswith("step | ")]
    assert ended == f"{began} interrupted after 12.3 s" and "step | 3/" in began
    assert [record.status for record in Workspace(settings.workspace).runs()] == ["stopped"]


def test_tfx_runs_the_steps_where_it_is_installed_and_elsewhere_files_record_them(settings, monkeypatch):
    called = []
    for name in ("tfx_backend", "plain_backend"):
        backend = types.SimpleNamespace(run_dag=lambda *_, name=name: called.append(name))
        monkeypatch.setitem(sys.modules, f"pipeline.local.{name}", backend)
    monkeypatch.setattr(local_run, "run_checks", lambda *_, **__: {})
    monkeypatch.setattr(local_run, "encode_results", lambda *_: {})
    for missing in ([], ["ml_metadata"]):
        monkeypatch.setattr(Extra, "missing", lambda self, missing=missing: missing)
        assert run_locally(settings).status == "succeeded"
    assert called == ["tfx_backend", "plain_backend"]


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


def _record(tmp_path, outputs, **fields):
    made = {i: {n: str(tmp_path / i / n) for n in names} for i, names in outputs.items()}
    return record(
        *(step(i, seconds=1.5, outputs=made[i]) for i in made), run_id="r", workspace=str(tmp_path), **fields
    )


def test_the_summary_of_a_full_run_of_one_that_stopped_early_and_of_one_with_spans(tmp_path):
    metrics = {"DetectionBoxes_Precision/mAP": 0.5, "DetectionBoxes_Precision/mAP@.50IOU": 0.9}
    points = metrics | {"Keypoints_Precision/mAP@.50IOU": 0.7}
    lite = {"file": "model_int8.tflite", "metrics": points, "passed": False, "size_bytes": 1}
    written = {
        "evaluator/evaluation/metrics": {"metrics": metrics, "blessed": True},
        "tflite_exporter/parity/parity": {"files": [lite | {"latency_ms": {"1": 2.0}}]},
        "pusher/pushed_model/pushed": {"pushed": False, "version": None, "reasons": ["mAP fell by 0.1"]},
    }
    for name, tree in written.items():
        files.write_text(str(tmp_path / f"{name}.json"), json.dumps(tree))
    outputs = {"evaluator": ["evaluation"], "tflite_exporter": ["parity"], "pusher": ["pushed_model"]}
    page, data = summarise(_record(tmp_path, outputs))
    assert [m["map_50"] for m in data["models"]] == [0.9, 0.9]
    assert [m.get("keypoints_map_50") for m in data["models"]] == [None, 0.7]
    table = next(line for line in str(page).splitlines() if line.startswith("model "))
    assert "keypoints mAP@.50" in table and "masks" not in table
    assert "not published: mAP fell by 0.1" in str(page)
    assert "refused" in str(page) and "0.900" in str(page)
    assert data["places"]["report"].endswith("runs/r/report.html")
    page, data = summarise(_record(tmp_path, {"example_gen": ["examples"]}))
    assert data["models"] == [] and data["pushed"] is None
    assert "example_gen" in str(page)
    page, data = summarise(_record(tmp_path, {"trainer": []}))
    assert "spans:" not in str(page) and data["spans"] == {}
    spans = SPANS.encode(Spans(train=("1", "2"), evaluate=("2",)))
    page, _ = summarise(_record(tmp_path, {"trainer": []}, checks={"data_spans": spans}))
    assert "spans: 1, 2 to train on, 2 for the other splits" in str(page)


def test_a_damaged_output_is_left_out_by_name(tmp_path, caplog):
    names = {"evaluator": "evaluation/metrics.json", "tflite_exporter": "parity/parity.json"}
    outputs = {"evaluator": ["evaluation"], "tflite_exporter": ["parity"], "pusher": ["pushed_model"]}
    wrong = '{"metrics": {"a": "b"}, "blessed": true}'
    for text in ("", "{", "[]", '{"metrics": []}', wrong, '{"files": [1]}'):
        caplog.clear()
        for name, file in names.items():
            files.write_text(str(tmp_path / name / file), text)
        page, data = summarise(_record(tmp_path, outputs))
        assert "evaluator" in str(page) and data["models"] == []
        assert "is left out" in caplog.text, text


class Waits:
    """Stands for the event that ends the writing: notes the waits, and ends after some of them."""

    def __init__(self, count):
        self.seconds, self._count = [], count
        self._over = threading.Event()

    def wait(self, seconds):
        self.seconds.append(seconds)
        if len(self.seconds) > self._count:
            self._over.set()
        return self._over.is_set()

    def set(self):
        assert self._over.wait(10)


def _waits(write, count):
    """Let a page be written some times; return how long was waited before each and after the last."""
    page, waits = LiveReport(write, seconds=8.0), Waits(count)
    page._ended = waits
    with page:
        pass
    assert not page._thread.is_alive()
    return waits.seconds


def test_the_page_is_written_less_often_where_it_takes_long_and_holds_nothing_up(caplog, monkeypatch):
    write = mock.Mock(side_effect=OSError("No space left on device"))
    with LiveReport(write, seconds=0.0) as page:
        page._thread.join(10)
    write.assert_called_once()
    assert "it is written when the run has ended" in caplog.text
    with pytest.raises(ValueError, match="early"), LiveReport(lambda: pytest.fail("written"), seconds=100.0):
        raise ValueError("early")
    written = []
    assert _waits(lambda: written.append(1), 3) == [2.0, 8.0, 8.0, 8.0] and len(written) == 3
    # Writing may take a twentieth of the time: 3 s every 60 s.
    moments = iter((0.0, 3.0, 100.0, 100.1))
    monkeypatch.setattr(local_run, "time", types.SimpleNamespace(monotonic=lambda: next(moments)))
    assert _waits(lambda: None, 2) == [2.0, pytest.approx(60.0), 8.0]


_RECORD = record(run_id="20260101-000000-aaaa", pipeline_name="p", status="running")


def test_what_killed_runs_left_is_removed_and_they_were_stopped(tmp_path):
    workspace = Workspace(str(tmp_path))
    workspace.write_info(_RECORD)
    assert workspace.run().status == "stopped"
    with workspace.lock():
        assert workspace.run().status == "running"
    files.remove_tree(str(tmp_path / "runs"))
    for name in ["runs/a/.run.json.0123abcd.partial", "artifacts/t/model/.5.0123abcd.partial/x"]:
        files.write_text(str(tmp_path / name), "x")
    files.write_text(str(tmp_path / "artifacts" / "t" / "model" / "4" / "kept"), "x")
    with Workspace(str(tmp_path)).lock():
        assert files.sizes(str(tmp_path)) == {".lock": 0, "artifacts/t/model/4/kept": 1}


def test_the_newest_run_is_the_default_and_stays_it_when_the_clock_is_set_back(tmp_path):
    workspace = Workspace(str(tmp_path))
    for run_id in ("20260102-000000-aaaa", "20260101-000000-bbbb"):
        workspace.write_info(dataclasses.replace(_RECORD, run_id=run_id, status="succeeded"))
    assert workspace.run().run_id == "20260102-000000-aaaa"
    assert workspace.run("20260101-000000-bbbb").status == "succeeded"
    refused(ConfigError, "expected the run nothing", workspace.run, "nothing")
    future = dataclasses.replace(_RECORD, run_id="29991231-235959-ffff", status="succeeded")
    workspace.write_info(future)
    run_id = workspace.new_run_id()
    assert run_id > future.run_id and run_id.startswith("30000101-000000-")
    empty = Workspace(str(tmp_path / "empty"))
    assert empty.new_run_id() < future.run_id
    refused(ConfigError, "expected a run, found none", empty.run)
    assert len({empty.new_run_id() for _ in range(100)}) > 90


def test_a_workspace_s_name_is_no_pattern_and_a_lock_that_is_a_link_is_refused(tmp_path):
    mine, neighbour = Workspace(str(tmp_path / "w[1]")), Workspace(str(tmp_path / "w1"))
    mine.write_info(dataclasses.replace(_RECORD, status="succeeded"))
    neighbour.write_info(dataclasses.replace(_RECORD, run_id="20270101-000000-aaaa", status="failed"))
    (tmp_path / "w[1]" / "runs" / "without-record").mkdir()
    assert [r.run_id for r in mine.runs()] == [_RECORD.run_id]
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(StorageError, match="found a link"), Workspace(str(tmp_path)).lock():
        pass
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_damaged_run_is_left_out_by_name_and_the_others_stay(tmp_path, caplog):
    workspace = Workspace(str(tmp_path))
    workspace.write_info(dataclasses.replace(_RECORD, status="succeeded"))
    texts = [b"", b"{", b"[]", b"\xff", b'{"run_id": "../../escaped"}', b"[" * 99999]
    for name, text in enumerate(texts):
        files.write_bytes(str(tmp_path / "runs" / str(name) / "run.json"), text)
    other = RUN.format(dataclasses.replace(_RECORD, run_id="../../escaped"))
    files.write_text(str(tmp_path / "runs" / "g" / "run.json"), other)
    (tmp_path / "runs" / "a file").write_text("x")
    assert [r.run_id for r in workspace.runs()] == [_RECORD.run_id]
    for name in (*range(len(texts)), "g"):
        assert f"runs/{name}/run.json is left out" in caplog.text
    assert workspace.run().run_id == _RECORD.run_id
