"""The component in a separate process: killed without warning, run again, done."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import types
from unittest import mock

import pytest

from component_specs import TrainerJob
from components.trainer import run as component
from components.trainer.run import run, training_config
from detection_core.artifacts.detector import LABEL_MAP, extra_file, read_info
from detection_core.errors import DataError, ModelError
from detection_core.storage import files
from detection_core.tasks.fitting.work_folder import ResumeOptions
from tests.support.cases import refused
from tests.support.detectors import PUBLISHED, publish_detector
from tests.support.tiny_training import config_text, write_examples

STEPS = 40


def trainer_job(root, steps=STEPS, **changes):
    files.write_text(str(root / "config" / "pipeline.config"), config_text(steps))
    folders = {"model": "model", "model_run": "run", "work_dir": "work", "pipeline_config": "config"}
    paths = {field: str(root / name) for field, name in folders.items()}
    return TrainerJob(**{"examples": str(root / "examples"), **paths, **changes})


def start(root):
    job = trainer_job(root)
    fields = ("examples", "model", "model_run", "work_dir", "pipeline_config")
    command = [sys.executable, "-m", "components.trainer"]
    command += [text for name in fields for text in (f"--{name}", getattr(job, name))]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_killed_trainer_goes_on_where_its_last_checkpoint_was(tmp_path):
    write_examples(tmp_path / "examples")
    first, deadline = start(tmp_path), time.monotonic() + 300
    # Of the newest one a kill may still miss a part; the one before it is whole.
    while len(list(tmp_path.glob("work/*/checkpoints/ckpt-*.index"))) < 2 and first.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert first.returncode == -signal.SIGKILL
    assert not os.path.exists(tmp_path / "model" / "Format-Serving")
    second = start(tmp_path)
    _, log = second.communicate(timeout=600)
    assert second.returncode == 0, log[-3000:]
    report = json.loads((tmp_path / "run" / "train_report.json").read_text())
    assert report["steps"] == STEPS and 0 < report["start_step"] < STEPS
    history = (tmp_path / "run" / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in history] == list(range(20, STEPS + 1, 20))
    assert f"train | step {STEPS}/{STEPS}" in log
    assert read_info(str(tmp_path / "model")).extra["steps"] == STEPS


def test_a_job_may_set_steps_and_learning_rate_over_its_config(tmp_path):
    write_examples(tmp_path / "examples")
    job = trainer_job(tmp_path)

    def config_of(**changes):
        return training_config(dataclasses.replace(job, **changes)).train_config

    own = {"overrides": {"train_config.num_steps": 9, "batch_size": 3}}
    assert config_of().num_steps == STEPS and "0.5" not in str(config_of().optimizer)
    changed = config_of(train_steps=7, learning_rate=0.5)
    assert changed.num_steps == 7 and "0.5" in str(changed.optimizer)
    assert (config_of(**own).num_steps, config_of(**own).batch_size) == (9, 3)
    # What a run is given counts more than what its settings say.
    assert config_of(**own, train_steps=7).num_steps == 7


def test_a_deployed_detector_of_other_classes_and_what_settings_stop_at_end_it_before_it_begins(tmp_path):
    write_examples(tmp_path / "examples")
    deployed = tmp_path / "deployed"
    files.write_text(str(deployed / "saved_model.pb"), "graph")
    files.write_text(extra_file(str(deployed), LABEL_MAP), "item { id: 1 name: 'cat' }")
    other = trainer_job(tmp_path, warm_start=str(deployed))
    refused(ModelError, "class 1: cat deployed, dark in the data", run, other)
    stopped = trainer_job(tmp_path, stop_reasons="5 of 10 images of eval are in train, too")
    error = refused(DataError, "severity stop, found: 5 of 10 images", run, stopped)
    assert "validation.checks" in error.message and not (tmp_path / "work").exists()


def test_what_the_job_says_reaches_the_training(tmp_path, monkeypatch):
    report = types.SimpleNamespace(steps=3, parameters=7, started_from="x", loss=1.0)
    train = mock.Mock(return_value=report)
    monkeypatch.setattr(component, "train", train)
    write_examples(tmp_path / "examples")
    job = trainer_job(tmp_path, warm_start_path="w", code_version="c", checkpoint_minutes=4.0)
    assert run(job) == {"steps": 3, "parameters": 7, "started_from": "x"}
    folders = {"model_dir": job.model, "model_run_dir": job.model_run, "work_dir": job.work_dir}
    resume = ResumeOptions(code_version="c", checkpoint_minutes=4.0)
    train.assert_called_once_with(
        training_config(job), **folders, warm_start_dir="w", progress=None, resume=resume
    )


@pytest.mark.slow
def test_published_weights_come_from_the_job_s_mirror(tmp_path, monkeypatch):
    monkeypatch.setenv("DETFLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DETFLOW_WEIGHTS_MIRROR", raising=False)
    write_examples(tmp_path / "examples")
    overrides = {"train_config.fine_tune_checkpoint": f"zoo:{PUBLISHED}"}
    job = trainer_job(tmp_path, steps=1, overrides=overrides, weights_mirror=str(tmp_path / "mirror"))
    asked = f"put {PUBLISHED}.tar.gz, published at .* into {tmp_path}/cache/zoo"
    refused(ModelError, asked, run, job)
    assert not (tmp_path / "work").exists()
    publish_detector(tmp_path / "mirror")
    assert run(job)["started_from"] == f"zoo:{PUBLISHED}"
    restored = json.loads((tmp_path / "run" / "train_report.json").read_text())["restored"]
    assert restored["restored"] > 200 and restored["skipped_shape"] == 2 and restored["missing"] == 0
