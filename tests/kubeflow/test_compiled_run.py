"""The compiled digits workflow on a pretended cluster: every step in a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
import yaml

from pipeline.kubeflow.kfp_backend import render_pipeline
from pipeline.settings.settings_file import load_settings
from tests.end_to_end.conftest import COMPOSE, ROOT, SMALL
from tests.kubeflow.compiled_run import run_compiled
from tests.support.executor_input import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def cluster(tmp_path):
    """The packages of the image, as they are now: a step of a run executes the same code as the first."""
    for package in ("component_specs", "components", "detection_core"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / "image" / package, ignore=ignored)
    return Cluster(root=tmp_path / "cluster", source=str(tmp_path / "image"))


@pytest.fixture
def places(tmp_path):
    counts = ["--train", "16", "--eval", "4", "--test", "6"]
    subprocess.run([sys.executable, str(COMPOSE), str(tmp_path / "scenes"), *counts], check=True, timeout=120)
    return {
        "data_path": str(tmp_path / "scenes"),
        "push_destination": str(tmp_path / "published"),
        "work_dir": str(tmp_path / "work"),
    }


def test_the_compiled_workflow_publishes_and_its_repetition_knows_that(cluster, places):
    settings = load_settings(
        str(ROOT / "examples" / "kubeflow" / "settings.yaml"),
        [*SMALL, "export.formats=[float32]", "quantize.enabled=false"],
        check_files=False,
    )
    spec = next(yaml.safe_load_all(render_pipeline(settings)))
    done = run_compiled(cluster, spec, **places, train_steps=3.0)
    assert done["trainer"].artifacts["model"]["metadata"]["steps"] == 3
    assert done["evaluator"].parameters["blessed"] == done["pusher"].parameters["pushed"] == "true"
    assert done["tflite-exporter"].artifacts["metrics"]["metadata"]["float32 bytes"] > 0
    version = json.loads((done["pusher"].folder["pushed_model"] / "pushed.json").read_text())["version"]

    # The same again: its own publication is not its baseline, and the token says that it need not push.
    checker = {**spec["root"]["dag"]["tasks"]["run-checker"]}
    only_checks = {**spec, "root": {**spec["root"], "dag": {"tasks": {"run-checker": checker}}}}
    again = run_compiled(cluster, only_checks, **places, train_steps=3.0)["run-checker"]
    assert again.parameters == done["run-checker"].parameters
    other = run_compiled(cluster, only_checks, **places, train_steps=4.0)["run-checker"]
    assert other.parameters["baseline_version"] == str(version)
