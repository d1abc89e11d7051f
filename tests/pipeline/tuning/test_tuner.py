import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from detection_core.errors import DataError
from detection_core.python_process import python_environment
from pipeline.tuning.search import Parameter, Space
from pipeline.tuning.tuner import trial_command
from tests.pipeline.tuning.searches import X, tuned
from tests.support.cases import refused
from tests.support.python_traps import set_traps


def test_a_trial_does_not_run_a_user_s_own_pipeline_py(tmp_path):
    executed = set_traps(tmp_path / "started_in")
    done = subprocess.run(
        trial_command(str(tmp_path / "none")), cwd=tmp_path / "started_in", env=python_environment(),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert not executed.exists() and "FileNotFoundError" in done.stderr  # there is no job


def test_the_best_trial_is_found_and_its_detector_alone_is_kept(tmp_path):
    search, tuner = tuned(tmp_path, X, 6)
    tuner.run()
    records = search.records()
    assert [r.state for r in records] == ["complete"] * 6
    for record in records:
        assert record.score == pytest.approx(1 - abs(record.overrides["x"] - 0.3))
    best = search.best
    assert best is not None and best.score == max(r.score for r in records if r.score is not None)
    assert [r.number for r in records if os.path.isdir(tuner.trial_folder(r.number).model)] == [best.number]
    assert not any(os.path.exists(tuner.trial_folder(r.number).work) for r in records)


def test_trials_below_the_others_are_ended_early(tmp_path):
    """A training that is worse waits in its middle until it is ended."""
    values = Parameter(choices=[0.3, 0.2999, 0.3001, 0.9])
    space = Space(parameters={"x": values}, sampler="random", startup_trials=3)
    search, tuner = tuned(tmp_path, space, 12, waits_above=0.5, startup=3)
    tuner.run()
    states = {(r.overrides["x"], r.state) for r in search.records()[3:]}
    assert (0.9, "pruned") in states and (0.3, "pruned") not in states
    pruned = next(r for r in search.records() if r.state == "pruned")
    assert pruned.reason == "the others were better at the same time"
    assert pruned.score is not None and pruned.score < 0.4


def test_workers_train_at_the_same_time_and_where_every_training_fails_the_search_ends(tmp_path):
    # Each training waits until four of them run.
    search, tuner = tuned(tmp_path / "four", X, 4, workers=4, meets=4)
    tuner.run()
    assert [r.state for r in search.records()] == ["complete"] * 4
    search, tuner = tuned(tmp_path / "crash", X, 50, end="crash")
    refused(DataError, r"output\.txt: .*3 that failed.*no memory", tuner.run)
    assert [r.state for r in search.records()] == ["failed"] * 3


def test_values_that_nothing_can_be_trained_with_are_the_worst_and_what_a_failure_learned_is_kept(tmp_path):
    def searched(end, trials):
        space = Space(parameters={"end": Parameter(choices=[end, "well"])}, sampler="random", seed=1)
        search, tuner = tuned(tmp_path / end, space, trials)
        tuner.run()
        return search.records(), tuner

    for record in searched("unfit", 8)[0]:
        unfit = record.overrides["end"] == "unfit"
        assert record.state == ("pruned" if unfit else "complete")
        assert record.reason == ("expected a finite loss, found nan" if unfit else "")
    records, tuner = searched("break", 4)
    assert {record.state for record in records} == {"failed", "complete"}
    for record in records:
        assert os.path.exists(tuner.trial_folder(record.number).work) == (record.state == "failed")


def test_a_search_goes_on_with_more_trials_and_after_it_was_killed(tmp_path):
    straight, tuner = tuned(tmp_path / "straight", X, 6)
    tuner.run()
    for trials in (3, 3, 6):
        search, tuner = tuned(tmp_path / "more", X, trials)
        tuner.run()
        assert len(search.records()) == trials
    assert [r.overrides for r in search.records()] == [r.overrides for r in straight.records()]
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 128 + signal.SIGTERM)):
        folder = tmp_path / number.name
        said = json.dumps({"stops_search": 2, "signal": number})
        command = [sys.executable, "-m", "tests.pipeline.tuning.searches", str(folder), said]
        done = subprocess.run(command, cwd=Path(__file__).parents[3], check=False, timeout=120)
        assert done.returncode == code
        if number == signal.SIGTERM:
            listed = subprocess.run(["ps", "-ef"], capture_output=True, text=True, check=True).stdout
            assert f"{folder}/trials" not in listed, "a stopped search leaves no training behind"
            assert (folder / "trials" / "0002" / "saved").exists(), "and lets it save"
        search, tuner = tuned(folder, X, 6)
        assert len(search.records()) == 3
        tuner.run()
        assert [r.overrides for r in search.records()] == [r.overrides for r in straight.records()]
        assert all(r.state == "complete" for r in search.records()) and search.best == straight.best
        began = [(folder / "trials" / f"{n:04d}" / "began").read_text() for n in range(6)]
        assert began == ["x", "x", "xx", "x", "x", "x"], "the training that was under way was begun again"
