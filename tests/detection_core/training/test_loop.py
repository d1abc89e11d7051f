"""The loop: resume, guard, reports, stop signals."""

import json
import signal

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from google.protobuf import text_format

from detection_core.builders.optimizer import build_optimizer
from detection_core.errors import DataError, ModelError
from detection_core.parts.layers.keras_layers import Dropout, stochastic_depth
from detection_core.protos.optimizer_pb2 import Optimizer
from detection_core.training import loop
from detection_core.training.actions import HistoryFile, TrainingAction
from detection_core.training.loop import run_training
from detection_core.training.loop_options import TrainOptions
from detection_core.training.precision import Precision
from detection_core.training.step import new_step
from tests.detection_core.training import runs
from tests.detection_core.training.runs import Crash, Seen, Signal, assert_equal, momentum, train, whole_run
from tests.support.cases import cases
from tests.support.tiny_model import TinyModel, make_dataset


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight")
    return whole_run(folder, None, HistoryFile(str(folder / "history.jsonl")))


def test_killed_and_resumed_training_equals_an_undisturbed_one(straight, tmp_path):
    history = tmp_path / "history.jsonl"
    # A crash in the report of step 5 comes before its checkpoint, so nothing is there yet.
    for crash in (Crash(5), Crash(7)):
        seen = Seen()
        with pytest.raises(RuntimeError, match="killed"):
            train(TinyModel(), tmp_path, HistoryFile(str(history)), seen, crash)
        assert seen.reports[0].step == 1
    resumed = TinyModel(seed=1)  # other weights, all of which the checkpoint must replace
    end = train(resumed, tmp_path, HistoryFile(str(history)))
    assert (end.start_step, end.step) == (5, 10)
    assert_equal(straight.model.variables, resumed.variables)
    assert_equal(straight.result.average.averages, end.average.averages)
    texts = [path.read_text().splitlines() for path in (straight.folder / "history.jsonl", history)]
    ours, theirs = ([json.loads(line) for line in lines] for lines in texts)
    assert [line["step"] for line in ours] == [line["step"] for line in theirs] == list(range(1, 11))
    for key in ("learning_rate", "loss"):
        assert [line[key] for line in ours] == pytest.approx([line[key] for line in theirs], rel=1e-5)


class DroppingModel(TinyModel):
    """A tiny model with dropout and, in a branch, stochastic depth."""

    def __init__(self, seed=0):
        super().__init__(seed)
        tiny, initializer = self.network, tf_keras.initializers.GlorotUniform(seed=seed + 1)
        features = tiny.get_layer("stem_bn").output
        branch = tf_keras.layers.Conv2D(4, 1, name="branch", kernel_initializer=initializer)(features)
        joined = tf_keras.layers.Add(name="add")([stochastic_depth(0.5, "depth_drop")(branch), features])
        dropped = Dropout(0.3, name="values_drop")(joined)
        outputs = tiny.get_layer("flat")(tiny.get_layer("head")(dropped))
        self.network = tf_keras.Model(tiny.input, outputs, name="dropping")


def test_dropout_and_stochastic_depth_end_alike_after_a_stop(tmp_path):
    chosen = {"num_steps": 3, "checkpoint_every": 1, "gradient_accumulation_steps": 2}
    whole, resumed = whole_run(tmp_path / "whole", DroppingModel(), **chosen), DroppingModel()
    tf.random.uniform([3])  # another process has drawn other numbers before
    assert train(resumed, whole.copy(1, tmp_path / "killed"), **chosen).start_step == 1
    assert_equal(whole.model.variables, resumed.variables, 0, 0)


class Traced(TinyModel):
    """Counts how often its losses are put into a graph."""

    times = 0

    def losses(self, batch, training):
        self.times += 1
        return super().losses(batch, training)


@cases(
    ("momentum_optimizer { learning_rate { constant_learning_rate {} } }", {"steps_per_call": 2}),
    ("rms_prop_optimizer { learning_rate { exponential_decay_learning_rate {} } }", {}),
    (
        "adam_optimizer { learning_rate { manual_step_learning_rate { schedule { step: 3 } } } }",
        {"max_skipped_updates": 2, "precision": Precision.FLOAT16},
    ),
)
def test_an_update_is_put_into_a_graph_once(tmp_path, *, optimizer, changes):
    """A function whose first call makes variables would be traced twice: half of the first step's time."""
    text = f"{optimizer} use_moving_average: true moving_average_decay: 0.9"
    optimization = build_optimizer(text_format.Parse(text, Optimizer()))
    options, model = TrainOptions(num_steps=4, summarize_gradients=True, **changes), Traced()
    run_training(model, make_dataset, optimization, options, str(tmp_path))
    assert model.times == 1


class Ending(TrainingAction):
    """Keeps the reported end and the reported skipped updates."""

    def __init__(self):
        self.told, self.steps = [], []

    def skipped(self, update):
        self.steps.append(update.step)
        return " It is known."

    def failed(self, error):
        self.told.append(type(error))

    def close(self):
        self.told.append("closed")


def test_a_finished_training_is_restored_without_another_step(straight, tmp_path):
    again, ending = TinyModel(seed=3), Ending()
    result = train(again, straight.copy(10, tmp_path / "again"), ending)
    assert (result.start_step, result.step, result.last_report) == (10, 10, None)
    assert result.checkpoint.endswith("ckpt-10") and ending.told == ["closed"]
    assert_equal(straight.model.variables, again.variables, 0, 0)


def test_several_steps_a_call_give_the_same_weights_and_one_left_out_changes_none(straight, tmp_path):
    many = whole_run(tmp_path, log_every=4, steps_per_call=3)
    assert [report.step for report in many.seen.reports] == [4, 8, 10]
    assert_equal(straight.model.variables, many.model.variables)
    run = whole_run(tmp_path / "left out", data=poisoned(5), num_steps=6, max_skipped_updates=1)
    assert_equal(straight.seen.weights[5], run.model.variables)
    assert run.result.skipped_updates == 1 and run.seen.reports[-1].steps_per_second > 0


def poisoned(at):
    return lambda start: make_dataset(start, poison_at=at)


def test_a_loss_that_is_no_number_stops_with_the_step_it_came_from(straight, tmp_path):
    model, ending = TinyModel(), Ending()
    message = r"training step 6: .*Loss/total_loss nan.*gradient_clipping_by_norm.* are kept\. It is known\."
    with pytest.raises(ModelError, match=message):
        train(model, tmp_path, ending, data=poisoned(6), log_every=4, checkpoint_every=2)
    assert runs.kept(tmp_path) == [2, 4, 6]
    assert train(TinyModel(), tmp_path, num_steps=6).start_step == 6
    assert_equal(straight.seen.weights[6], model.variables)
    assert ending.told == [ModelError, "closed"]


def test_an_update_that_is_no_number_may_be_left_out_and_counted(straight, tmp_path):
    chosen = {"data": poisoned(3), "num_steps": 8, "log_every": 2, "checkpoint_every": 2}
    chosen["max_skipped_updates"] = 1
    first, killed = Ending(), Seen()
    with pytest.raises(RuntimeError, match="killed"):
        train(TinyModel(), tmp_path, first, killed, Crash(6), **chosen)
    assert [report.skipped_updates for report in killed.reports] == [0, 1, 1]
    resumed = whole_run(tmp_path, TinyModel(seed=1), second := Ending(), **chosen)
    assert (first.steps, second.steps, resumed.result.skipped_updates) == ([3], [], 1)
    assert [report.skipped_updates for report in resumed.seen.reports] == [1, 1]
    values = [*resumed.model.variables, *resumed.result.average.averages]
    assert all(np.all(np.isfinite(value)) for value in values)


def test_a_stop_signal_saves_and_leaves(tmp_path):
    for number, error, at in ((signal.SIGTERM, SystemExit, 3), (signal.SIGINT, KeyboardInterrupt, 4)):
        before = signal.getsignal(number)
        with pytest.raises(error):
            train(TinyModel(), tmp_path, seen := Seen(), Signal(number, at))
        assert signal.getsignal(number) is before
        assert (tmp_path / "checkpoints" / f"ckpt-{at}.index").exists()
    assert [report.step for report in seen.reports] == [4]


def test_the_step_is_visible_to_the_model_and_a_dataset_that_ends_is_refused(tmp_path):
    step, seen = new_step(), Seen()

    class Delayed(TinyModel):
        def losses(self, batch, training):
            return super().losses(batch, training) | {"Loss/step": tf.cast(step, tf.float32)}

    options = TrainOptions(num_steps=3, log_every=1)
    run_training(Delayed(), make_dataset, momentum(), options, str(tmp_path), actions=[seen], step=step)
    assert [report.losses["Loss/step"] for report in seen.reports] == [0.0, 1.0, 2.0]
    assert int(step) == 3
    with pytest.raises(DataError, match="ended near step 3 of 10"):
        train(TinyModel(), tmp_path / "ended", data=lambda start: make_dataset(start).take(3), log_every=4)


class Clock(TrainingAction):
    """Of the loop: every step takes two minutes."""

    now = 0.0

    def monotonic(self):
        return self.now

    def report(self, report):
        self.now += 120


@cases((5.0, [3, 5, 8]), (0.0, [5]))
def test_checkpoints_go_by_time_too(tmp_path, monkeypatch, *, minutes, saved):
    """A kill without a signal costs little then."""
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)
    with pytest.raises(RuntimeError, match="killed"):
        train(TinyModel(), tmp_path, clock, Crash(9), checkpoint_minutes=minutes)
    assert runs.kept(tmp_path) == saved
