"""Trials side by side, ended early, failing, killed and gone on with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from detection_core.errors import DataError
from detection_core.python_process import python_environment
from pipeline.tuning.search import Search
from pipeline.tuning.space import Parameter, Space
from pipeline.tuning.tuner import Tuner, TunerOptions, trial_command
from tests.support.python_traps import set_traps

FAKE = Path(__file__).with_name("fake_training.py")
X = Parameter(low=0.0, high=1.0)


def command(folder: str) -> list[str]:
    return [sys.executable, str(FAKE), folder]


def tuned(folder: Path, space: Space, trials: int, workers: int = 1, **fixed: Any) -> tuple[Search, Tuner]:
    options = TunerOptions(trials=trials, workers=workers, poll_seconds=0.02, command=command)
    search = Search(space, str(folder))
    return search, Tuner(search, lambda values: {"overrides": {**fixed, **values}}, str(folder), options)


def test_a_trial_does_not_run_a_user_s_own_pipeline_py(tmp_path: Path) -> None:
    executed = set_traps(tmp_path / "started_in")
    done = subprocess.run(
        trial_command(str(tmp_path / "none")),
        cwd=tmp_path / "started_in",
        env=python_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert not executed.exists() and "FileNotFoundError" in done.stderr  # there is no job


def test_the_best_trial_is_found_and_its_detector_alone_is_kept(tmp_path: Path) -> None:
    search, tuner = tuned(tmp_path, Space(parameters={"x": X}, pruner="none"), 6)
    tuner.run()
    records = search.records()
    assert [r.state for r in records] == ["complete"] * 6
    for record in records:
        assert record.score == pytest.approx(1 - abs(record.overrides["x"] - 0.3))
    best = search.best
    assert best is not None and best.score == max(r.score for r in records if r.score is not None)
    kept = [r.number for r in records if os.path.isdir(tuner.trial_folder(r.number).model)]
    assert kept == [best.number]
    assert not any(os.path.exists(tuner.trial_folder(r.number).work) for r in records)


def test_trials_below_the_others_are_ended_early(tmp_path: Path) -> None:
    values = Parameter(choices=(0.3, 0.2999, 0.3001, 0.9))
    space = Space(parameters={"x": values}, sampler="random", startup_trials=3)
    search, tuner = tuned(tmp_path, space, 12, seconds=0.05)
    tuner.run()
    states = {(r.overrides["x"], r.state) for r in search.records()[3:]}
    assert (0.9, "pruned") in states and (0.3, "pruned") not in states
    pruned = next(r for r in search.records() if r.state == "pruned")
    assert pruned.reason == "the others were better at the same time"
    assert pruned.score is not None and pruned.score < 0.4


def test_workers_train_at_the_same_time(tmp_path: Path) -> None:
    space = Space(parameters={"x": X}, pruner="none")
    _, tuner = tuned(tmp_path, space, 4, workers=4, seconds=0.2)
    began = time.monotonic()
    tuner.run()
    assert time.monotonic() - began < 6.5, "one after the other takes 8 s and more"


def test_values_that_nothing_can_be_trained_with_are_the_worst_not_an_error(tmp_path: Path) -> None:
    space = Space(parameters={"end": Parameter(choices=("unfit", "well"))}, sampler="random", seed=1)
    search, tuner = tuned(tmp_path, space, 8, x=0.3)
    tuner.run()
    for record in search.records():
        unfit = record.overrides["end"] == "unfit"
        assert record.state == ("pruned" if unfit else "complete")
        assert record.reason == ("expected a finite loss, found nan" if unfit else "")


def test_where_every_training_fails_the_search_ends(tmp_path: Path) -> None:
    space = Space(parameters={"x": X})
    search, tuner = tuned(tmp_path, space, 50, end="crash")
    with pytest.raises(DataError, match=r"output\.txt: .*3 that failed.*no memory"):
        tuner.run()
    assert [r.state for r in search.records()] == ["failed"] * 3


def test_what_a_training_that_failed_has_learned_is_kept(tmp_path: Path) -> None:
    space = Space(parameters={"end": Parameter(choices=("break", "well"))}, sampler="random", seed=1)
    search, tuner = tuned(tmp_path, space, 4, x=0.3)
    tuner.run()
    states = {r.number: r.state for r in search.records()}
    assert set(states.values()) == {"failed", "complete"}
    for number, state in states.items():
        assert os.path.exists(tuner.trial_folder(number).work) == (state == "failed")


def test_more_trials_go_on_where_fewer_ended(tmp_path: Path) -> None:
    space = Space(parameters={"x": X}, pruner="none")
    straight, tuner = tuned(tmp_path / "a", space, 8)
    tuner.run()
    for trials in (3, 3, 8):
        search, tuner = tuned(tmp_path / "b", space, trials)
        tuner.run()
        assert len(search.records()) == trials
    assert [r.overrides for r in search.records()] == [r.overrides for r in straight.records()]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """The search that the killed ones are held against."""
    search, tuner = tuned(tmp_path_factory.mktemp("straight"), Space(parameters={"x": X}), 6, seconds=0.02)
    tuner.run()
    return search


PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from pathlib import Path
from pipeline.tuning.space import Parameter, Space
from tests.pipeline.tuning.test_tuner import tuned
_, tuner = tuned(Path(sys.argv[1]), Space(parameters={{"x": Parameter(low=0.0, high=1.0)}}), 6, seconds=0.02)
print("begins", flush=True)
tuner.run()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_search_that_is_killed_goes_on_with_its_trainings(
    tmp_path: Path, straight: Search, number: int
) -> None:
    folder, codes = tmp_path / "killed", []
    for seconds in (0.5, 0.1, None):
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"begins\n"
        try:
            codes.append(process.wait(seconds))
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            codes.append(process.wait(60))
        process.stdout.close()
    assert codes[-1] == 0 and any(codes[:-1])
    search = Search(Space(parameters={"x": X}), str(folder))
    assert [r.overrides for r in search.records()] == [r.overrides for r in straight.records()]
    assert all(r.state in ("complete", "pruned") for r in search.records())
    assert search.best == straight.best
    began = [len((folder / "trials" / f"{r.number:04d}" / "began").read_text()) for r in search.records()]
    assert max(began) > 1, "the training that was under way was begun again"


def test_a_stopped_search_leaves_no_training_behind(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    process.stdout.close()
    listed = subprocess.run(["ps", "-ef"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in listed
