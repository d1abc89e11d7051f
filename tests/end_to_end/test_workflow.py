"""The whole workflow as its user runs it: real Beam, real ML Metadata, real models and interpreters."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from benchmarks.start_up import COMMANDS, measure_verbs, places_of
from tests.end_to_end.conftest import SHORT, Workflow, states

pytestmark = [pytest.mark.slow, pytest.mark.tfx, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def workflow(tmp_path_factory, scenes):
    return Workflow(tmp_path_factory.mktemp("workflow"), scenes)


@pytest.fixture(scope="module")
def first(workflow):
    return workflow.call_process("run", workflow.settings, *workflow.sets())


def test_the_first_run_executes_and_publishes_everything(workflow, first):
    assert first["status"] == "succeeded" and first["pushed"]["pushed"]
    assert set(states(first).values()) == {"executed"}
    version, published = str(first["pushed"]["version"]), workflow.workspace / "pushed"
    assert (published / "saved_model" / version / "saved_model.pb").is_file()
    files = ["model_float32.tflite", "model_int8.tflite"]
    assert sorted(os.listdir(published / "tflite" / version)) == ["labels.txt", *files]
    assert [m["model"] for m in first["models"]] == ["SavedModel", "quantized SavedModel", *files]


def test_the_report_is_one_self_contained_page_and_can_be_written_anew(workflow, first, tmp_path):
    page = Path(first["places"]["report"]).read_text(encoding="utf-8")
    for step in states(first):
        assert step in page
    assert "data:image/" in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "<script src" not in page
    path = str(tmp_path / "again.html")
    written = workflow.call("report", workflow.workspace, "--run", first["run"], "--output", path)
    assert written == {"run": first["run"], "report": path}
    assert first["run"] in Path(path).read_text(encoding="utf-8")


def test_a_second_identical_run_executes_nothing_and_both_are_listed(workflow, first):
    again = workflow.run()
    assert set(states(again).values()) == {"cached"}
    assert again["models"] == first["models"]
    listed = {record["run_id"]: record["status"] for record in workflow.call("runs", workflow.workspace)}
    assert listed[first["run"]] == listed[again["run"]] == "succeeded"


# Imports of a verb by TensorFlow's, twice and more what was measured; docs/measured.md has the table.
MOST_IMPORTS = {
    "--help": 0.2,
    "completion": 0.4,
    "zoo": 0.3,
    "doctor": 0.4,
    "runs": 0.4,
    "config": 0.5,
    "validate": 0.6,
    "compile": 0.8,
    "inspect": 0.4,
    "report": 0.4,
    "run": 0.8,
}


def test_verbs_that_run_no_detector_import_little(workflow, first, tmp_path):
    places = places_of(workflow.workspace, str(tmp_path))

    def over(commands):
        found = measure_verbs(commands, **places)
        base = found.pop("import tensorflow")
        assert base.tensorflow and [verb for verb, start in found.items() if start.tensorflow] == []
        shares = {verb: start.import_s / base.import_s for verb, start in found.items()}
        return {verb: share for verb, share in shares.items() if share > MOST_IMPORTS[verb]}

    # The first process of a new installation compiles what it imports.
    slow = over(COMMANDS)
    assert COMMANDS.keys() == MOST_IMPORTS.keys() and (not slow or not over({v: COMMANDS[v] for v in slow}))


def test_a_refusing_gate_is_a_successful_run_that_publishes_nothing(workflow, first):
    bound = "evaluate.thresholds={DetectionBoxes_Precision/mAP: {lower_bound: 0.99}}"
    refused = workflow.run(bound)
    assert refused["status"] == "succeeded" and not refused["pushed"]["pushed"]
    assert "DetectionBoxes_Precision/mAP" in refused["pushed"]["reasons"][0]
    assert states(refused)["trainer"] == "cached"
    current = json.loads((workflow.workspace / "pushed" / "current.json").read_text())
    assert current["version"] == first["pushed"]["version"]


def test_predict_draws_with_the_published_files(workflow, first, scenes, tmp_path):
    version = str(first["pushed"]["version"])
    image = next((scenes / "images" / "test").iterdir())
    for model in (("saved_model", version), ("tflite", version, "model_int8.tflite")):
        path = workflow.workspace.joinpath("pushed", *model)
        out = tmp_path / model[0]
        workflow.call("predict", "--model", path, image, "--output", out, "--min-score", "0.01")
        assert any(name.endswith((".jpg", ".png")) for name in os.listdir(out))


def test_a_killed_run_goes_on_where_it_was_replaces_the_first_and_can_be_rolled_back(workflow, first):
    longer = workflow.sets("train.overrides.train_config.num_steps=40", *SHORT)
    process = workflow.start("run", workflow.settings, *longer)
    for line in process.stderr:
        # A checkpoint is written every tenth of the training; the first is there before this line.
        if "train | step 20/40" in line:
            break
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    process.stderr.close()
    [killed] = [r for r in workflow.call("runs", workflow.workspace) if r["status"] != "succeeded"]
    assert killed["status"] == "stopped"
    second = workflow.call_process("run", workflow.settings, *longer)
    assert states(second)["example_gen"] == "cached" and states(second)["trainer"] == "executed"
    log = (workflow.workspace / "runs" / second["run"] / "log.txt").read_text()
    assert int(re.search(r"training from step (\d+) to 40", log).group(1)) >= 4
    before, after, pushed = first["pushed"], second["pushed"], workflow.workspace / "pushed"
    assert after["pushed"] and after["version"] > before["version"]
    record = json.loads((pushed / "versions" / f"{after['version']}.json").read_text())
    assert record["baseline_version"] == str(before["version"])
    rolled = workflow.call("rollback", pushed)
    assert (rolled["version"], rolled["rolled_back"]) == (before["version"], [after["version"]])


def test_a_broken_input_is_one_clear_error(tmp_path, scenes):
    broken = tmp_path / "scenes"
    shutil.copytree(scenes, broken)
    (broken / "train.json").write_text("{")
    workflow = Workflow(tmp_path, broken)
    failure = workflow.run(code=2)
    assert failure["error"] == "DataError" and "train.json" in failure["message"]
    [record] = workflow.call("runs", workflow.workspace)
    assert record["status"] == "failed"
