"""The whole workflow as its user runs it: real Beam, real ML Metadata, real models and interpreters."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Workflow, states

pytestmark = [pytest.mark.slow, pytest.mark.tfx, pytest.mark.timeout(1500)]

# Leaves out what a test is not about.
SHORT = ("quantize.enabled=false", "export.formats=[float32]")


@pytest.fixture(scope="module")
def workflow(tmp_path_factory, scenes):
    return Workflow(tmp_path_factory.mktemp("workflow"), scenes)


@pytest.fixture(scope="module")
def first(workflow):
    return workflow.run()


def test_the_first_run_executes_and_publishes_everything(workflow, first):
    assert first["status"] == "succeeded"
    assert set(states(first).values()) == {"executed"}
    assert first["pushed"]["pushed"]
    published = workflow.workspace / "pushed"
    version = str(first["pushed"]["version"])
    assert (published / "saved_model" / version / "saved_model.pb").is_file()
    assert sorted(os.listdir(published / "tflite" / version)) == [
        "labels.txt",
        "model_float32.tflite",
        "model_int8.tflite",
    ]
    assert [m["model"] for m in first["models"]] == [
        "SavedModel",
        "quantized SavedModel",
        "model_float32.tflite",
        "model_int8.tflite",
    ]


def test_the_report_is_one_self_contained_page(first):
    page = Path(first["places"]["report"]).read_text(encoding="utf-8")
    for step in states(first):
        assert step in page
    assert "data:image/" in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "<script src" not in page


def test_a_second_identical_run_executes_nothing(workflow, first):
    again = workflow.run()
    assert set(states(again).values()) == {"cached"}
    assert again["models"] == first["models"]


def test_a_refusing_gate_is_a_successful_run_that_publishes_nothing(workflow, first):
    bound = "evaluate.thresholds={DetectionBoxes_Precision/mAP: {lower_bound: 0.99}}"
    refused = workflow.run(bound)
    assert refused["status"] == "succeeded"
    assert not refused["pushed"]["pushed"]
    assert "DetectionBoxes_Precision/mAP" in refused["pushed"]["reasons"][0]
    assert states(refused)["trainer"] == "cached"
    current = json.loads((workflow.workspace / "pushed" / "current.json").read_text())
    assert current["version"] == first["pushed"]["version"]


def test_a_better_model_replaces_the_first_and_can_be_rolled_back(workflow, first):
    second = workflow.run("train.overrides.train_config.num_steps=14", *SHORT)
    assert second["pushed"]["pushed"]
    assert second["pushed"]["version"] > first["pushed"]["version"]
    assert states(second)["example_gen"] == "cached"
    record = workflow.workspace / "pushed" / "versions" / f"{second['pushed']['version']}.json"
    assert json.loads(record.read_text())["baseline_version"] == str(first["pushed"]["version"])
    rolled = workflow.call("rollback", workflow.workspace / "pushed")
    assert rolled["version"] == first["pushed"]["version"]
    assert rolled["rolled_back"] == [second["pushed"]["version"]]


def test_the_report_of_a_run_can_be_written_anew(workflow, first, tmp_path):
    path = str(tmp_path / "again.html")
    written = workflow.call("report", workflow.workspace, "--run", first["run"], "--output", path)
    assert written == {"run": first["run"], "report": path}
    assert first["run"] in Path(path).read_text(encoding="utf-8")


def test_runs_are_listed(workflow, first):
    listed = workflow.call("runs", workflow.workspace)
    assert listed[0]["run_id"] == first["run"]
    assert {record["status"] for record in listed} == {"succeeded"}


def test_predict_draws_with_the_published_files(workflow, first, scenes, tmp_path):
    version = str(first["pushed"]["version"])
    image = next((scenes / "images" / "test").iterdir())
    for model in (("saved_model", version), ("tflite", version, "model_int8.tflite")):
        path = workflow.workspace.joinpath("pushed", *model)
        workflow.call(
            "predict", "--model", path, image, "--output", tmp_path / model[0], "--min-score", "0.01"
        )
        assert any(name.endswith((".jpg", ".png")) for name in os.listdir(tmp_path / model[0]))


def test_a_killed_run_goes_on_where_it_was(tmp_path, scenes):
    workflow = Workflow(tmp_path, scenes)
    slow = ("train.overrides.train_config.num_steps=100", *SHORT)
    process = workflow.start(*slow)
    for line in process.stderr:
        # A checkpoint is written every tenth of the training; the first is there before this line.
        if "train | step 20/100" in line:
            break
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    process.stderr.close()
    [killed] = workflow.call("runs", workflow.workspace)
    assert killed["status"] == "stopped"
    summary = workflow.run(*slow)
    assert states(summary)["example_gen"] == "cached"
    assert states(summary)["trainer"] == "executed"
    log = (workflow.workspace / "runs" / summary["run"] / "log.txt").read_text()
    assert int(re.search(r"training from step (\d+) to 100", log).group(1)) >= 10


def test_a_broken_input_is_one_clear_error(tmp_path, scenes):
    broken = tmp_path / "scenes"
    shutil.copytree(scenes, broken)
    (broken / "train.json").write_text("{")
    workflow = Workflow(tmp_path, broken)
    failure = workflow.run(code=2)
    assert failure["error"] == "DataError" and "train.json" in failure["message"]
    [record] = workflow.call("runs", workflow.workspace)
    assert record["status"] == "failed"
