"""Validation while training: what is kept, when training stops, what a kill changes (nothing)."""

import logging
import os
import signal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detection_core.artifacts.model_run import VALIDATIONS, ValidationLine
from detection_core.errors import ContractError, StorageError
from detection_core.training.actions import TrainingAction
from detection_core.training.validation import Validation, ValidationOptions, best_lines, waited
from tests.detection_core.training import runs
from tests.detection_core.training.runs import Crash, Signal, assert_equal, kept
from tests.support.storage_faults import few_descriptors
from tests.support.tiny_model import TinyModel

SCORES = st.none() | st.integers(-3, 3).map(float)


def lines_of(scores):
    return [ValidationLine(step=10 * (i + 1), score=score) for i, score in enumerate(scores)]


def by_weights(model):
    """A metric that depends on the weights alone."""
    return {"sum": float(np.abs(model.network.variables[0].numpy()).sum())}


def table(scores):
    """A measure that gives the scores one after the other."""
    left = iter(scores)
    return lambda: {"sum": next(left)}


def validation_of(model, folder, measure, **changes):
    asked = ValidationOptions(**({"every_steps": 4, "objective": {"sum": 1.0}} | changes))
    return Validation(asked, measure, model, str(folder))


def train(model, folder, *actions, measure=None, **changes):
    validation = validation_of(model, folder, measure or (lambda: by_weights(model)), **changes)
    return runs.train(model, folder, *actions, validation=validation)


def validated_steps(folder):
    return [line.step for line in VALIDATIONS.read(str(folder))]


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


def test_the_best_weights_are_kept_and_restored_if_a_score_is_known(tmp_path, caplog):
    model, seen = TinyModel(), []
    validation = validation_of(model, tmp_path, table([1.0, 4.0, 2.0, 3.0, 0.0]), keep_best=2)
    validation.start(0)
    for step in range(2, 12, 2):
        model.variables[0].assign(model.variables[0] + 0.1 * step)
        seen.append([variable.numpy() for variable in model.variables])
        validation.run(step)
    assert kept(tmp_path, "best") == [4, 8] and validation.best.step == 4
    with pytest.raises(StorageError, match="Too many open files"), few_descriptors(1):
        validation.restore_best()
    assert kept(tmp_path, "best") == [4, 8]
    assert validation.restore_best().step == 4
    assert_equal(model.variables, seen[1], 0, 0)
    for file in (tmp_path / "best").glob("ckpt-4.data*"):
        file.write_bytes(b"damaged")
    assert validation.restore_best().step == 8 and "is damaged" in caplog.text
    assert_equal(model.variables, seen[3], 0, 0)
    validation = validation_of(TinyModel(), tmp_path / "unknown", table([None, None]))
    validation.start(0)
    assert [validation.run(step).score for step in (4, 8)] == [None, None]
    assert validation.restore_best() is None and kept(tmp_path / "unknown", "best") == []


def test_what_is_measured_and_kept_is_the_average_where_it_is_asked_for(tmp_path):
    model, seen = TinyModel(), []

    def measure():
        seen.append(model.trainable_variables[0].numpy())
        return {"sum": float(len(seen))}

    result = train(model, tmp_path, measure=measure, averaged=True)
    np.testing.assert_array_equal(seen[-1], result.average.averages[0])
    assert not np.array_equal(seen[-1], model.trainable_variables[0]) and kept(tmp_path, "best") == [10]
    result.validation.restore_best()
    np.testing.assert_array_equal(model.trainable_variables[0], seen[-1])


def test_training_stops_where_it_gains_nothing_and_a_stop_then_changes_nothing(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    scores, chosen = [1.0, 1.1, 1.05, 1.15], {"every_steps": 2, "patience": 2, "min_gain": 0.2}
    result = train(TinyModel(), tmp_path, measure=table(scores), **chosen)
    assert result.step == 6
    assert result.checkpoint.endswith("ckpt-6")
    assert "training stops at step 6 of 10" in caplog.text
    again = train(TinyModel(), tmp_path, measure=table([]), **chosen)
    assert (again.start_step, again.step, again.last_report) == (6, 6, None)
    folder = tmp_path / "stopped"
    chosen = {"measure": table([1.0, 0.9, 0.8]), "every_steps": 2, "patience": 2}
    with pytest.raises(SystemExit):
        train(TinyModel(), folder, Signal(signal.SIGTERM, 6), **chosen)
    end = train(TinyModel(), folder, **chosen)
    assert [line.step for line in end.validation.lines] == [2, 4, 6]
    assert (end.start_step, end.step, end.last_report) == (6, 6, None)


def test_by_time_it_is_measured_at_the_first_step_after_it(tmp_path, monkeypatch):
    clock = iter(range(0, 100_000, 20))
    monkeypatch.setattr("detection_core.training.validation.time.monotonic", lambda: next(clock))
    train(TinyModel(), tmp_path, every_steps=0, every_minutes=1.0)
    steps = validated_steps(tmp_path)
    assert len(steps) > 1 and steps[-1] == 10


class CrashBehind(TrainingAction):
    """Ends a training between a validation and its checkpoint."""

    def validated(self, line):
        if line.step == 8:
            raise RuntimeError("killed")


def disturbed(model, nth, disturb):
    """Measure by the weights, but in the nth validation do something else."""
    left = iter(range(1, 9))
    return lambda: disturb() if next(left) == nth else by_weights(model)


def test_kills_and_stops_change_nothing(tmp_path):
    """Each attempt goes on where the one before was disturbed, from the newest of the steps 4, 5, 8, 10."""

    def crash():
        raise RuntimeError("killed")

    def stop():
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the validation goes on")

    whole = train(TinyModel(), tmp_path / "whole", keep_best=2)
    assert whole.validation.best == max(whole.validation.lines, key=lambda line: line.score)
    folder = tmp_path / "disturbed"
    # Actions, what the nth validation of the attempt does, how it ends, and which steps are validated then.
    for actions, (nth, disturb), error, validated in (
        ([Crash(4)], (0, None), RuntimeError, []),
        ([], (1, crash), RuntimeError, []),
        ([], (1, stop), SystemExit, []),
        ([Crash(7)], (0, None), RuntimeError, [4]),
        ([CrashBehind()], (0, None), RuntimeError, [4, 8]),
        ([Signal(signal.SIGTERM, 8)], (0, None), SystemExit, [4]),
        ([], (2, crash), RuntimeError, [4, 8]),
        ([], (1, stop), SystemExit, [4, 8]),
    ):
        with pytest.raises(error):
            model = TinyModel()
            train(model, folder, *actions, measure=disturbed(model, nth, disturb), keep_best=2)
        assert validated_steps(folder) == validated, (actions, nth)
    end = train(TinyModel(), folder, keep_best=2)
    assert (end.start_step, end.step, end.last_report) == (10, 10, None)
    assert validated_steps(folder) == [4, 8, 10]
    assert kept(tmp_path / "whole", "best") == kept(folder, "best")
    # Sums differ in their last bits.
    scores = [[line.score for line in result.validation.lines] for result in (whole, end)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)
    # A line that cannot be read is refused, and not lost.
    file = folder / VALIDATIONS.name
    lines = file.read_bytes()
    for line in (b"\xff\xfe no text\n", b'{"schema_version": 99, "step": 8, "score": 9.0}\n'):
        file.write_bytes(lines + line)
        with pytest.raises(ContractError, match=r"validation\.jsonl:4: "):
            train(TinyModel(), folder)
        assert file.read_bytes() == lines + line
