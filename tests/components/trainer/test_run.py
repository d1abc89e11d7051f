"""The component in a process of its own: killed without warning, run again, done."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from component_specs import TrainerJob
from components.trainer.run import run, training_config
from detection_core.artifacts.detector import LABEL_MAP, extra_file, read_info
from detection_core.errors import DataError, ModelError
from detection_core.storage import files
from tests.detection_core.tasks.test_starting_weights import publish
from tests.support.tiny_training import config_text, write_examples

STEPS = 100


def write_config(folder: Path, text: str) -> str:
    files.write_text(str(folder / "pipeline.config"), text)
    return str(folder)


def start(root: Path) -> subprocess.Popen[str]:
    arguments = {
        "examples": root / "examples",
        "model": root / "model",
        "model_run": root / "run",
        "work_dir": root / "work",
        "pipeline_config": write_config(root / "config", config_text(STEPS)),
    }
    command = [sys.executable, "-m", "components.trainer"]
    command += [text for name, value in arguments.items() for text in (f"--{name}", str(value))]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def checkpoints(root: Path) -> list[Path]:
    return list(root.glob("work/*/checkpoints/ckpt-*.index"))


@pytest.mark.slow
def test_a_killed_trainer_goes_on_where_its_last_checkpoint_was(tmp_path: Path) -> None:
    write_examples(tmp_path / "examples")
    first = start(tmp_path)
    deadline = time.monotonic() + 300
    while not checkpoints(tmp_path) and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert first.returncode == -signal.SIGKILL
    assert not os.path.exists(tmp_path / "model" / "Format-Serving")

    second = start(tmp_path)
    _, log = second.communicate(timeout=600)
    assert second.returncode == 0, log[-3000:]
    report = json.loads((tmp_path / "run" / "train_report.json").read_text())
    assert report["steps"] == STEPS
    assert 0 < report["start_step"] < STEPS
    steps = [
        json.loads(line)["step"] for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()
    ]
    assert steps == list(range(20, STEPS + 1, 20))
    assert f"train | step {STEPS}/{STEPS}" in log
    assert read_info(str(tmp_path / "model")).extra["steps"] == STEPS


def test_a_job_may_set_steps_and_learning_rate_over_its_config(tmp_path: Path) -> None:
    write_examples(tmp_path / "examples")
    fields = {"model": "m", "model_run": "r", "work_dir": "w"}
    config = write_config(tmp_path / "config", config_text(STEPS))
    job = TrainerJob(examples=str(tmp_path / "examples"), pipeline_config=config, **fields)
    as_it_is = training_config(job).train_config
    assert as_it_is.num_steps == STEPS
    changed = training_config(dataclasses.replace(job, train_steps=7, learning_rate=0.5)).train_config
    assert changed.num_steps == 7
    assert "0.5" in str(changed.optimizer) and "0.5" not in str(as_it_is.optimizer)
    own = dataclasses.replace(job, overrides={"train_config.num_steps": 9, "batch_size": 3})
    assert training_config(own).train_config.num_steps == 9
    assert training_config(own).train_config.batch_size == 3
    # What a run is given counts more than what its settings say.
    assert training_config(dataclasses.replace(own, train_steps=7)).train_config.num_steps == 7


def test_a_deployed_detector_of_other_classes_stops_the_training_before_it_begins(tmp_path: Path) -> None:
    examples, deployed = write_examples(tmp_path / "examples"), tmp_path / "deployed"
    files.write_text(str(deployed / "saved_model.pb"), "graph")
    files.write_text(extra_file(str(deployed), LABEL_MAP), "item { id: 1 name: 'cat' }")
    job = TrainerJob(
        examples=str(examples),
        warm_start=str(deployed),
        model=str(tmp_path / "model"),
        model_run=str(tmp_path / "run"),
        work_dir=str(tmp_path / "work"),
        pipeline_config=write_config(tmp_path / "config", config_text()),
    )
    with pytest.raises(ModelError, match="class 1: cat deployed, dark in the data"):
        run(job)
    assert not (tmp_path / "work").exists()


def test_data_that_the_settings_stop_at_are_not_trained_on(tmp_path: Path) -> None:
    job = TrainerJob(
        examples=str(tmp_path / "none"),
        model=str(tmp_path / "model"),
        model_run=str(tmp_path / "run"),
        work_dir=str(tmp_path / "work"),
        pipeline_config=str(tmp_path / "config"),
        stop_reasons="5 of 10 images of eval are in train too",
    )
    with pytest.raises(DataError, match="found what the settings stop at: 5 of 10 images") as error:
        run(job)
    assert "validation.checks" in error.value.message and not os.path.exists(tmp_path / "work")


@pytest.mark.slow
def test_published_weights_come_from_the_job_s_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DETFLOW_CACHE", str(tmp_path / "cache"))
    name = "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"
    start = {"train_config.fine_tune_checkpoint": f"zoo:{name}"}
    job = TrainerJob(
        examples=str(write_examples(tmp_path / "examples")),
        model=str(tmp_path / "model"),
        model_run=str(tmp_path / "run"),
        work_dir=str(tmp_path / "work"),
        pipeline_config=write_config(tmp_path / "config", config_text()),
        overrides=start,
        weights_mirror=str(tmp_path / "mirror"),
    )
    with pytest.raises(ModelError, match=f"put {name}.tar.gz, published at .* into {tmp_path}/cache/zoo"):
        run(job)
    assert not (tmp_path / "work").exists()
    publish(tmp_path / "mirror", monkeypatch, tmp_path / "cache")
    monkeypatch.delenv("DETFLOW_WEIGHTS_MIRROR")
    assert (
        run(dataclasses.replace(job, overrides={**start, "train_config.num_steps": 1}))["started_from"]
        == f"zoo:{name}"
    )
    restored = json.loads((tmp_path / "run" / "train_report.json").read_text())["restored"]
    assert restored["restored"] > 200 and restored["skipped_shape"] == 2 and restored["missing"] == 0
