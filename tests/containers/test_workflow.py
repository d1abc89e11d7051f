"""The compiled digits workflow in containers: what a run must leave behind, whatever its runner says."""

import json
import re
import subprocess

import pytest

from detection_core.artifacts.detector import SERVING
from tests.containers.local_runner import LocalPipeline
from tests.end_to_end.conftest import SHORT, Workflow

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

STEPS = """run-checker config-gen example-gen baseline-resolver data-validator trainer evaluator
quantization-rewriter quantized-evaluator tflite-exporter pusher"""


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory, scenes, image):
    folder = tmp_path_factory.mktemp("pipeline")
    folder.chmod(0o777)
    return LocalPipeline(folder, scenes, image)


@pytest.fixture(scope="module")
def package(pipeline):
    return pipeline.compile()


@pytest.fixture(scope="module")
def first(pipeline, package):
    """The first run, which finds no baseline."""
    run = pipeline.run(package)
    assert not run.failed, run.log
    return run


def test_the_first_run_has_no_baseline_and_publishes(pipeline, first):
    assert first.executed == set(STEPS.split())
    decision = first.decision()
    assert decision["pushed"], decision
    version = pipeline.pointer["version"]
    assert version == decision["version"]
    assert (pipeline.pushed / "saved_model" / str(version) / "saved_model.pb").is_file()
    published = sorted(p.name for p in (pipeline.pushed / "tflite" / str(version)).iterdir())
    files = [f"model_{name}{form}.tflite" for name in ("float32", "int8") for form in ("", "_headless")]
    assert published == ["decoding.json", "labels.txt", *files]
    assert pipeline.record["baseline_version"] == ""


# What is the same byte by byte on one machine and in containers, on one kind of processor. The rest names
# places or times, or is a SavedModel, whose bytes vary with equal content.
SAME_BYTES = {
    ("example_gen", "examples"): "**/*",
    ("trainer", "model"): "Format-Serving/assets.extra/detflow/checkpoint/*",
    ("trainer", "model_run"): "checkpoint/*",
    ("evaluator", "blessing"): "*",
    ("evaluator", "evaluation"): "curves.json",
    ("quantization_rewriter", "quantized_model"): "Format-Serving/assets.extra/detflow/checkpoint/*",
    ("quantization_rewriter", "quantization"): "*",
    ("quantized_evaluator", "blessing"): "*",
    ("tflite_exporter", "tflite"): "*",
    ("tflite_exporter", "blessing"): "*",
}
MEASURED = {
    ("evaluator", "evaluation"): "metrics.json",
    ("quantized_evaluator", "evaluation"): "metrics.json",
    ("tflite_exporter", "parity"): "parity.json",
}
CLOCKED = {"seconds_per_image", "latency_ms", "peak_memory_bytes"}


def test_it_makes_what_the_run_on_one_machine_makes(tmp_path, scenes, first):
    workflow = Workflow(tmp_path, scenes)
    # In a separate process, as a step in a container: this one has imported TensorFlow without oneDNN.
    summary = workflow.call_process("run", workflow.settings, *workflow.sets())
    assert summary["pushed"]["pushed"]

    def both(step, name):
        (here,) = (workflow.workspace / "artifacts" / step / name).iterdir()
        return here, first.output(step.replace("_", "-"), name)

    for (step, name), pattern in SAME_BYTES.items():
        here, there = (_contents(folder, pattern) for folder in both(step, name))
        assert here and here.keys() == there.keys(), (step, name)
        assert [path for path in here if here[path] != there[path]] == [], (step, name)
    for (step, name), file in MEASURED.items():
        here, there = (json.loads((folder / file).read_text()) for folder in both(step, name))
        assert _figures(here) == {path: _near(path, value) for path, value in _figures(there).items()}, step


def _near(path, value):
    # Decibels of layers: the run on one machine predicts with oneDNN, a container as TensorFlow does.
    return pytest.approx(value, rel=0.01) if "/network/" in path and isinstance(value, float) else value


def _figures(value, path=""):
    """Give the path and value of each leaf but times and memory."""
    if not isinstance(value, dict | list):
        return {path: value}
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    kept = [_figures(part, f"{path}/{name}") for name, part in parts if name not in CLOCKED]
    return {leaf: figure for part in kept for leaf, figure in part.items()}


def _contents(folder, pattern="**/*"):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.glob(pattern) if p.is_file()}


def test_an_identical_run_comes_from_the_cache(pipeline, package, first):
    before = pipeline.pointer
    again = pipeline.run(package)
    assert not again.failed, again.log
    assert again.executed == {"run-checker"}
    assert pipeline.pointer == before


def test_a_refusing_gate_publishes_nothing(pipeline, package, first):
    before = _contents(pipeline.pushed)
    bound = '{"DetectionBoxes_Precision/mAP": {"lower_bound": 0.99}}'
    refused = pipeline.run(package, thresholds=bound)
    assert not refused.failed, refused.log
    # Data are compared with those of the version that is deployed now; Trainer sees the same verdict.
    again = {"run-checker", "baseline-resolver", "data-validator", "evaluator", "pusher"}
    assert refused.executed == again
    decision = refused.decision()
    assert not decision["pushed"] and "DetectionBoxes_Precision/mAP" in decision["reasons"][0]
    assert _contents(pipeline.pushed) == before
    # This run has found the first one's model, as it is published.
    baseline = refused.output("baseline-resolver", "baseline") / SERVING
    deployed = pipeline.pushed / "saved_model" / str(pipeline.pointer["version"])
    assert _contents(baseline) == _contents(deployed)


def test_a_killed_trainer_is_retried_and_goes_on(pipeline, first):
    baseline = pipeline.pointer["version"]

    def kill_trainer(log):
        # A checkpoint is written every tenth of the training; the first is there before this line.
        if "train | step 20/50" not in log:
            return False
        listed = ["docker", "ps", "--quiet", f"--filter=ancestor={pipeline.image}"]
        for container in subprocess.check_output(listed, text=True).split():
            command = ["docker", "inspect", "--format={{.Config.Cmd}}", container]
            if "components.trainer" in subprocess.check_output(command, text=True):
                subprocess.run(["docker", "kill", container], check=True, capture_output=True)
        return True

    short = pipeline.compile(*SHORT)
    run = pipeline.run(short, watch=kill_trainer, train_steps=50)
    assert not run.failed, run.log
    starts = [int(n) for n in re.findall(r"training from step (\d+) to 50", run.log)]
    assert len(starts) == 2 and starts[0] == 0 and starts[1] >= 5
    assert "example-gen" not in run.executed
    assert run.decision()["pushed"]
    assert pipeline.pointer["version"] > baseline
    assert pipeline.record["baseline_version"] == str(baseline)


def test_a_step_that_fails_says_why_and_stops_the_run(pipeline, package, first):
    before = _contents(pipeline.pushed)
    run = pipeline.run(package, data_path="/nowhere")
    assert "run-checker" in run.failed
    assert "/nowhere" in run.log and "Traceback" not in run.log
    assert run.executed == {"run-checker"}
    assert not run.folder.exists()
    assert _contents(pipeline.pushed) == before
