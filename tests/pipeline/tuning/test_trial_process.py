import os
import subprocess
import sys
from pathlib import Path

from components.trainer import run as trainer
from detection_core.errors import ConfigError, DataError, ModelError
from pipeline.tuning import trial_process
from pipeline.tuning.trial_folder import TrialFolder
from tests.support.cases import refused
from tests.support.command_line import has_ended

ROOT = Path(__file__).parents[3]


def test_the_code_tells_whose_fault_it_is_and_a_crash_is_no_message(tmp_path, monkeypatch):
    folder, jobs, ends = TrialFolder(str(tmp_path)), [], []
    folder.write_job({"examples": "e", "pipeline_config": "c", "overrides": {"train_config.batch_size": 2}})

    def run(job):
        jobs.append(job)
        if ends[-1]:
            raise ends[-1]

    monkeypatch.setattr(trainer, "run", run)
    monkeypatch.setattr(trial_process, "_leave_with_parent", lambda parent: None)
    for error, code in (
        (None, 0),
        (ModelError("expected a finite loss"), trial_process.EXIT_UNFIT),
        (ConfigError("expected a multiple"), trial_process.EXIT_UNFIT),
        (DataError("no record"), 2),
        (OSError(28, "No space left on device"), 2),
    ):
        ends.append(error)
        assert trial_process.main([folder.path]) == code
    ends.append(RuntimeError("a bug"))
    refused(RuntimeError, "a bug", trial_process.main, [folder.path])
    assert len(jobs) == 6 and len(set(map(str, jobs))) == 1
    job = jobs[0]
    assert (job.examples, job.overrides) == ("e", {"train_config.batch_size": 2})
    assert (job.model, job.model_run, job.work_dir) == (folder.model, folder.model_run, folder.work)


def test_it_stops_when_the_search_is_gone(tmp_path):
    child = (
        "import os, sys, time; from pipeline.tuning.trial_process import _leave_with_parent;"
        "_leave_with_parent(os.getppid()); print(os.getpid(), flush=True); time.sleep(60)"
    )
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]).wait()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", parent]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        training = int(process.stdout.readline())
        process.kill()
    assert has_ended(training), "the training goes on though nobody waits for it"
