"""One trial: its folder, process, share of the machine and values."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from components.trainer import run as trainer
from detection_core.artifacts.model_run import VALIDATIONS, ValidationLine
from detection_core.errors import ConfigError, DataError, ModelError
from pipeline.tuning import trial_process
from pipeline.tuning.search import Parameter, Space, load_space
from pipeline.tuning.trial_process import TrialFolder
from pipeline.tuning.tuner import visible_gpus, worker_environment
from tests.support.cases import refused
from tests.support.command_line import has_ended
from tests.support.refusals import not_refused


def test_validations_are_those_of_the_work_folder_and_in_the_end_of_the_model_run(tmp_path):
    folder = TrialFolder(str(tmp_path))
    assert folder.validations() == []
    (tmp_path / "work" / "abc").mkdir(parents=True)
    VALIDATIONS.write(f"{folder.work}/abc", [ValidationLine(step=1, score=0.1)])
    assert [line.step for line in folder.validations()] == [1]
    (tmp_path / "model_run").mkdir()
    VALIDATIONS.write(folder.model_run, [ValidationLine(step=n, score=0.1 * n) for n in (1, 2)])
    assert [line.step for line in folder.validations()] == [1, 2]


def test_torn_lines_are_left_out_and_last_words_and_jobs_are_read(tmp_path):
    (tmp_path / "work" / "abc").mkdir(parents=True)
    (tmp_path / "work" / "abc" / "validation.jsonl").write_text('{"step": 1, "score": 0.1}\n{"step": 2, "sc')
    folder = TrialFolder(str(tmp_path))
    assert [line.step for line in folder.validations()] == [1] and folder.last_words() == ""
    Path(folder.log).write_text("x" * 9000 + "\nthe reason\n\n")
    assert folder.last_words() == "the reason"
    folder.write_job({"overrides": {"a.b": 1}})
    assert '"a.b": 1' in folder.read_job()


def test_a_trial_that_has_ended_keeps_its_record(tmp_path):
    folder = TrialFolder(str(tmp_path))
    for name in ("work", "model", "model_run"):
        (tmp_path / name).mkdir()
    folder.clear(keep_model=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model", "model_run"]
    folder.clear(keep_model=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model_run"]


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


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))


def test_one_training_has_the_whole_machine_and_several_divide_processors_and_gpus(monkeypatch):
    assert worker_environment(0, 1) == {}
    found = worker_environment(1, 3)
    assert found == {"TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "2", "OMP_NUM_THREADS": "2"}
    assert worker_environment(0, 20)["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert "OMP_NUM_THREADS" not in worker_environment(0, 2), "what the environment says stays"
    for devices, workers, dealt in (
        ("0,1", 2, ["0", "1"]),
        ("0,1", 4, ["0", "1", "0", "1"]),
        ("3,5,7", 2, ["3,7", "5"]),
        ("GPU-a", 2, ["GPU-a"] * 2),
    ):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", devices)
        found = [worker_environment(slot, workers) for slot in range(workers)]
        assert [each["CUDA_VISIBLE_DEVICES"] for each in found] == dealt
        assert {each["TF_FORCE_GPU_ALLOW_GROWTH"] for each in found} == {"true"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert visible_gpus() == []


def space(tmp_path, text):
    path = tmp_path / "space.yaml"
    path.write_text(text)
    return load_space(str(path))


SPACE = """
parameters:
  learning_rate: {low: 1e-4, high: 0.1, log: true}
  train_config.batch_size: {low: 4, high: 16, step: 4}
  train_config.gradient_clipping_by_norm: {low: 0, high: 10.0}
  train_config.data_augmentation_options[0]: {choices: ["ssd_random_crop {}", "random_horizontal_flip {}"]}
trials: 7
sampler: random
pruner: hyperband
startup_trials: 2
seed: 3
"""


def test_ranges_and_choices_are_read(tmp_path):
    found = space(tmp_path, SPACE)
    rate, batch, clip, augmentation = (found.parameters[name] for name in yaml.safe_load(SPACE)["parameters"])
    assert rate == Parameter(low=1e-4, high=0.1, log=True) and batch == Parameter(low=4, high=16, step=4)
    assert augmentation == Parameter(choices=["ssd_random_crop {}", "random_horizontal_flip {}"])
    assert clip == Parameter(low=0, high=10.0) and batch.is_whole and not clip.is_whole
    chosen = {"trials": 7, "sampler": "random", "pruner": "hyperband", "startup_trials": 2, "seed": 3}
    assert found == Space(parameters=found.parameters, **chosen) and len(found.parameters) == 4


WRONG = [
    ("[]", "expected a mapping with the key parameters"),
    ("parameters: {}", "parameters"),
    ("parameters: {a: {low: 1, high: 2}}\ntrails: 3", "trails"),
    ("parameters: {a: {low: 1, high: 2}}\ntrials: 0", "trials"),
    ("parameters: {a: {low: 1, high: 2}}\nsampler: grid", "sampler"),
    ("parameters: {a: {low: 1}}", r"parameters\.a: expected low and high"),
    ("parameters: {a: {low: 2, high: 1}}", r"a\.high: expected more than low"),
    ("parameters: {a: {low: 0, high: 1, log: true}}", r"a\.low: expected more than 0 on a log scale"),
    ("parameters: {a: {low: x, high: 1}}", r"a\.low: expected a number, found 'x'"),
    ("parameters: {a: {low: .inf, high: 1}}", r"a\.low: expected a number"),
    ("parameters: {a: {low: 1, high: 9, step: 0.5}}", r"a\.step: expected a whole number"),
    ("parameters: {a: {low: 1, high: 9, step: 1, log: true}}", r"a\.step: expected no step on a log"),
    (
        "parameters: {a: {low: 1, high: 2, steps: 1}}",
        r"unknown key parameters\.a\.steps; did you mean parameters\.a\.step",
    ),
    ("parameters: {a: {choices: []}}", r"a\.choices: expected a list of values"),
    ("parameters: {a: {choices: [{b: 1}]}}", r"a\.choices: expected a list of values"),
    ("parameters: {a: {choices: [1, 1]}}", r"a\.choices: expected each value once"),
    ("parameters: {a: {choices: [1], low: 1}}", "found both"),
]


def test_what_says_nothing_is_refused_with_its_place(tmp_path):
    cases = [(text, rf"space\.yaml.*{message}") for text, message in WRONG]
    assert not not_refused(functools.partial(space, tmp_path), cases, ConfigError)
    refused(ConfigError, "/no/such: cannot read the file of a search", load_space, "/no/such")
    assert len(load_space(str(ROOT / "examples" / "digits" / "space.yaml")).parameters) == 3
