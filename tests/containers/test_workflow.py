"""The compiled digits workflow in containers: what a run must leave behind, whatever its runner says."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from detection_core.detector_layout import serving_dir
from tests.containers.local_runner import LocalPipeline
from tests.end_to_end.conftest import Workflow

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

STEPS = {
    "run-checker",
    "example-gen",
    "baseline-resolver",
    "trainer",
    "evaluator",
    "quantization-rewriter",
    "quantized-evaluator",
    "tflite-exporter",
    "pusher",
}


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory, scenes, image):
    folder = tmp_path_factory.mktemp("pipeline")
    folder.chmod(0o777)
    return LocalPipeline(folder, scenes, image)


@pytest.fixture(scope="module")
def first(pipeline):
    """The first run, which finds no baseline."""
    run = pipeline.run()
    assert not run.failed, run.log
    return run


def test_the_first_run_has_no_baseline_and_publishes(pipeline, first):
    assert first.executed == STEPS
    decision = first.decision()
    assert decision["pushed"], decision
    version = pipeline.pointer["version"]
    assert version == decision["version"]
    assert (pipeline.pushed / "saved_model" / str(version) / "saved_model.pb").is_file()
    published = sorted(p.name for p in (pipeline.pushed / "tflite" / str(version)).iterdir())
    assert published == ["labels.txt", "model_float32.tflite", "model_int8.tflite"]
    assert (
        json.loads((pipeline.pushed / "versions" / f"{version}.json").read_text())["baseline_version"] == ""
    )


def test_it_makes_what_the_run_on_one_machine_makes(tmp_path, scenes, first):
    workflow = Workflow(tmp_path, scenes)
    summary = workflow.run()
    assert summary["pushed"]["pushed"]

    def local(step, name):
        (number,) = (workflow.workspace / "artifacts" / step / name).iterdir()
        return number

    # The data, byte by byte.
    names = ("example_gen", "examples")
    assert _contents(local(*names)) == _contents(first.output("example-gen", "examples"))


def _contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_an_identical_run_comes_from_the_cache(pipeline, first):
    before = pipeline.pointer
    again = pipeline.run()
    assert not again.failed, again.log
    assert again.executed == {"run-checker"}
    assert pipeline.pointer == before


def test_a_refusing_gate_publishes_nothing(pipeline, first):
    before = _contents(pipeline.pushed)
    bound = '{"DetectionBoxes_Precision/mAP": {"lower_bound": 0.99}}'
    refused = pipeline.run(thresholds=bound)
    assert not refused.failed, refused.log
    assert "trainer" not in refused.executed
    decision = refused.decision()
    assert not decision["pushed"]
    assert "DetectionBoxes_Precision/mAP" in decision["reasons"][0]
    assert _contents(pipeline.pushed) == before


def test_a_killed_trainer_is_retried_and_goes_on(pipeline, first):
    baseline = pipeline.pointer["version"]

    def kill_trainer(log):
        # A checkpoint is written every tenth of the training; the first is there before this line.
        if "train | step 20/60" not in log:
            return False
        listed = ["docker", "ps", "--quiet", f"--filter=ancestor={pipeline.image}"]
        for container in subprocess.check_output(listed, text=True).split():
            command = ["docker", "inspect", "--format={{.Config.Cmd}}", container]
            if "components.trainer" in subprocess.check_output(command, text=True):
                subprocess.run(["docker", "kill", container], check=True, capture_output=True)
        return True

    run = pipeline.run(watch=kill_trainer, train_steps=60)
    assert not run.failed, run.log
    starts = [int(n) for n in re.findall(r"training from step (\d+) to 60", run.log)]
    assert len(starts) == 2 and starts[0] == 0 and starts[1] >= 10
    assert "example-gen" not in run.executed
    assert run.decision()["pushed"]
    version = pipeline.pointer["version"]
    record = json.loads((pipeline.pushed / "versions" / f"{version}.json").read_text())
    assert version > baseline and record["baseline_version"] == str(baseline)
    resolved = serving_dir(str(run.output("baseline-resolver", "baseline")))
    published = pipeline.pushed / "saved_model" / str(baseline)
    assert _contents(published) == _contents(type(published)(resolved))


def test_a_step_that_fails_says_why_and_stops_the_run(pipeline, first):
    before = _contents(pipeline.pushed)
    run = pipeline.run(data_path="/nowhere")
    assert "run-checker" in run.failed
    assert "/nowhere" in run.log and "Traceback" not in run.log
    assert run.executed == {"run-checker"}
    assert _contents(pipeline.pushed) == before
