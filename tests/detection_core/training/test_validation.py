"""Validation while training: what is kept, when training stops, what a kill changes (nothing)."""

import dataclasses
import logging
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detection_core.artifacts.model_run import VALIDATIONS, ValidationLine
from detection_core.errors import ContractError, StorageError
from detection_core.training.actions import TrainingAction
from detection_core.training.loop import TrainingResult, run_training
from detection_core.training.loop_options import StepReport, TrainOptions
from detection_core.training.validation import Validation, ValidationOptions, best_lines, waited
from tests.detection_core.training.test_loop import Crash, momentum
from tests.support.storage_faults import few_descriptors
from tests.support.tiny_model import TinyModel, make_dataset

SCORES = st.none() | st.integers(-3, 3).map(float)


class Killed(Exception):
    """Ends a training as a kill would."""


def lines_of(scores: list[float | None]) -> list[ValidationLine]:
    return [ValidationLine(step=10 * (i + 1), score=score) for i, score in enumerate(scores)]


def by_weights(model: TinyModel) -> Mapping[str, float]:
    """A metric that depends on the weights alone."""
    return {"sum": float(np.abs(model.network.variables[0].numpy()).sum())}


def train(
    model: TinyModel,
    folder: Path,
    *actions: TrainingAction,
    measure: object = None,
    options: TrainOptions | None = None,
    **changes: object,
) -> TrainingResult:
    asked = ValidationOptions(**({"every_steps": 4, "objective": {"sum": 1.0}} | changes))
    return run_training(
        model,
        make_dataset,
        momentum(average=0.9),
        options or TrainOptions(num_steps=10, log_every=1, checkpoint_every=5),
        str(folder),
        actions=actions,
        validation=Validation(asked, measure or (lambda: by_weights(model)), model, str(folder)),
    )


def kept(folder: Path) -> list[int]:
    return sorted(int(p.name.split("-")[1].split(".")[0]) for p in (folder / "best").glob("*.index"))


def table(scores: list[float | None]) -> Iterator[object]:
    """A measure that gives the scores one after the other."""
    left = iter(scores)
    return lambda: {"sum": next(left)}


def test_the_score_weighs_metrics_and_is_nothing_where_one_has_no_value():
    options = ValidationOptions(every_steps=1, objective={"a": 2.0, "b": -1.0, "unused": 0.0})
    assert options.score({"a": 3.0, "b": 1.0}) == 5.0
    assert options.score({"a": 3.0, "b": None}) is None
    assert options.score({"a": 3.0}) is None
    assert options.score({"a": float("nan"), "b": 1.0}) is None


@given(st.lists(SCORES, max_size=12), st.integers(1, 4))
def test_the_best_are_the_highest_and_of_equal_ones_the_earliest(scores, count):
    lines = lines_of(scores)
    best = best_lines(lines, count)
    known = [line for line in lines if line.score is not None]
    assert len(best) == min(count, len(known))
    for line in known:
        better = [o for o in known if o.score > line.score or (o.score == line.score and o.step < line.step)]
        assert (line in best) == (len(better) < count)


@given(st.lists(SCORES, min_size=1, max_size=12), st.sampled_from([0.0, 1.0]))
def test_waiting_counts_validations_since_the_last_gain(scores, gain):
    since = waited(lines_of(scores), gain)
    assert 0 <= since <= len(scores)
    if scores[-1] is not None and all(s is None or scores[-1] > s + gain for s in scores[:-1]):
        assert since == 0
    assert waited(lines_of([*scores, None]), gain) == since + 1


def test_the_model_is_measured_when_due_and_at_the_end(tmp_path):
    result = train(TinyModel(), tmp_path)
    assert [line.step for line in VALIDATIONS.read(str(tmp_path))] == [4, 8, 10]
    assert result.step == 10
    assert result.validation.best == max(result.validation.lines, key=lambda line: line.score)


def test_the_best_weights_are_kept_and_restored(tmp_path):
    seen = {}
    model = TinyModel()
    scores = iter([1.0, 3.0, 2.0])

    def measure() -> Mapping[str, float]:
        score = next(scores)
        seen[score] = [v.numpy() for v in model.variables]
        return {"sum": score}

    result = train(model, tmp_path, measure=measure)
    assert kept(tmp_path) == [8]
    assert result.validation.restore_best().step == 8
    for variable, value in zip(model.variables, seen[3.0], strict=True):
        np.testing.assert_array_equal(variable, value)


def test_as_many_are_kept_as_asked_for(tmp_path):
    train(TinyModel(), tmp_path, measure=table([1.0, 4.0, 2.0, 3.0, 0.0]), every_steps=2, keep_best=2)
    assert kept(tmp_path) == [4, 8]


def test_what_is_measured_and_kept_is_the_average_where_it_is_asked_for(tmp_path):
    model, seen = TinyModel(), []

    def measure() -> Mapping[str, float]:
        seen.append(model.trainable_variables[0].numpy())
        return {"sum": float(len(seen))}

    result = train(model, tmp_path, measure=measure, averaged=True)
    np.testing.assert_array_equal(seen[-1], result.average.averages[0])
    assert not np.array_equal(seen[-1], model.trainable_variables[0])
    result.validation.restore_best()
    np.testing.assert_array_equal(model.trainable_variables[0], seen[-1])


def test_the_next_best_is_restored_where_the_best_is_damaged(tmp_path, caplog):
    result = train(TinyModel(), tmp_path, measure=table([1.0, 3.0, 2.0]), keep_best=2)
    for file in (tmp_path / "best").glob("ckpt-8.data*"):
        file.write_bytes(b"damaged")
    assert result.validation.restore_best().step == 10
    assert "is damaged" in caplog.text


def test_the_best_weights_stay_where_they_cannot_be_read_for_another_reason_than_damage(tmp_path):
    result = train(TinyModel(), tmp_path, measure=table([1.0, 3.0, 2.0]), keep_best=2)
    with pytest.raises(StorageError, match="Too many open files"), few_descriptors(1):
        result.validation.restore_best()
    assert kept(tmp_path) == [8, 10]
    assert result.validation.restore_best().step == 8


@pytest.mark.parametrize("line", [b"\xff\xfe no text", b'{"schema_version": 99, "step": 8, "score": 9.0}'])
def test_a_line_that_cannot_be_read_is_refused_and_not_lost(tmp_path, line):
    train(TinyModel(), tmp_path)
    file = tmp_path / VALIDATIONS.name
    file.write_bytes(file.read_bytes() + line + b"\n")
    before = file.read_bytes()
    with pytest.raises(ContractError, match=r"validation\.jsonl:4: "):
        train(TinyModel(), tmp_path)
    assert file.read_bytes() == before


def test_nothing_is_restored_where_no_score_is_known(tmp_path):
    result = train(TinyModel(), tmp_path, measure=table([None, None, None]))
    assert result.validation.restore_best() is None
    assert kept(tmp_path) == []


def test_training_stops_where_it_gains_nothing(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    scores = [1.0, 1.1, 1.05, 1.15]
    result = train(TinyModel(), tmp_path, measure=table(scores), every_steps=2, patience=2, min_gain=0.2)
    assert result.step == 6
    assert result.checkpoint.endswith("ckpt-6")
    assert "training stops at step 6 of 10" in caplog.text
    again = train(TinyModel(), tmp_path, measure=table([]), every_steps=2, patience=2, min_gain=0.2)
    assert (again.start_step, again.step, again.last_report) == (6, 6, None)


def test_by_time_it_is_measured_at_the_first_step_after_it(tmp_path, monkeypatch):
    clock = iter(range(0, 100_000, 20))
    monkeypatch.setattr("detection_core.training.validation.time.monotonic", lambda: next(clock))
    train(TinyModel(), tmp_path, every_steps=0, every_minutes=1.0)
    steps = [line.step for line in VALIDATIONS.read(str(tmp_path))]
    assert len(steps) > 1 and steps[-1] == 10


@dataclasses.dataclass
class CrashWhileMeasuring:
    """Ends a training inside its nth validation."""

    model: TinyModel
    at: int
    calls: int = 0

    def __call__(self) -> Mapping[str, float]:
        self.calls += 1
        if self.calls == self.at:
            raise Killed
        return by_weights(self.model)


@dataclasses.dataclass(frozen=True)
class Whole:
    """An undisturbed training."""

    folder: Path
    result: TrainingResult


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return Whole(folder, train(TinyModel(), folder, keep_best=2))


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_kill_while_measuring_changes_nothing(whole, tmp_path, at):
    model = TinyModel()
    with pytest.raises(Killed):
        train(model, tmp_path, measure=CrashWhileMeasuring(model, at), keep_best=2)
    end = train(TinyModel(), tmp_path, keep_best=2)
    expect_equal(whole, end, tmp_path)


@pytest.mark.parametrize("step", [3, 4, 7, 9])
def test_a_kill_between_validations_changes_nothing(whole, tmp_path, step):
    with pytest.raises(RuntimeError, match="killed"):
        train(TinyModel(), tmp_path, Crash(step), keep_best=2)
    end = train(TinyModel(), tmp_path, keep_best=2)
    expect_equal(whole, end, tmp_path)


class Stop(TrainingAction):
    """Asks a training to stop, as a cluster does, at a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def report(self, report: StepReport) -> None:
        if report.step == self.at:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("step", [4, 8, 10])
def test_a_stop_where_a_validation_is_due_changes_nothing(whole, tmp_path, step):
    with pytest.raises(SystemExit):
        train(TinyModel(), tmp_path, Stop(step), keep_best=2)
    assert step not in [line.step for line in VALIDATIONS.read(str(tmp_path))]
    end = train(TinyModel(), tmp_path, keep_best=2)
    expect_equal(whole, end, tmp_path)


def test_a_stop_in_the_last_validation_ends_the_program_with_everything_saved(tmp_path):
    model = TinyModel()

    def measure() -> Mapping[str, float]:
        os.kill(os.getpid(), signal.SIGTERM)
        return by_weights(model)

    with pytest.raises(SystemExit):
        train(model, tmp_path, measure=measure, every_steps=0)
    assert VALIDATIONS.read(str(tmp_path)) == []  # interrupted, and made up for below
    end = train(TinyModel(), tmp_path, measure=table([1.0]), every_steps=0)
    assert (end.start_step, end.step) == (10, 10)
    assert [line.step for line in VALIDATIONS.read(str(tmp_path))] == [10]


def test_a_stop_where_the_last_hope_ends_changes_nothing(tmp_path):
    scores = table([1.0, 0.9, 0.8])
    with pytest.raises(SystemExit):
        train(TinyModel(), tmp_path, Stop(6), measure=scores, every_steps=2, patience=2)
    end = train(TinyModel(), tmp_path, measure=scores, every_steps=2, patience=2)
    assert [line.step for line in end.validation.lines] == [2, 4, 6]
    assert (end.start_step, end.step, end.last_report) == (6, 6, None)


def expect_equal(whole: Whole, end: TrainingResult, folder: Path) -> None:
    """Expect the same validations and the same kept weights; sums differ in their last bits."""
    assert kept(whole.folder) == kept(folder)
    for a, b in zip(whole.result.validation.lines, end.validation.lines, strict=True):
        assert a.step == b.step
        assert a.score == pytest.approx(b.score, rel=1e-5)
    assert [line.step for line in VALIDATIONS.read(str(folder))] == [4, 8, 10]


def test_a_signal_in_a_validation_saves_the_step_and_the_validation_is_made_up_for(tmp_path):
    model = TinyModel()

    def measure() -> dict[str, float]:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the validation goes on")

    with pytest.raises(SystemExit):
        train(model, tmp_path, measure=measure)
    result = train(TinyModel(), tmp_path)
    assert result.start_step == 4
    assert [line.step for line in VALIDATIONS.read(str(tmp_path))] == [4, 8, 10]
