"""The loop: resume, guard, reports, stop signals."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from google.protobuf import text_format

from detection_core.builders.optimizer import build_optimizer
from detection_core.detectors.parts.layers.dropout import Dropout, stochastic_depth
from detection_core.errors import DataError, ModelError
from detection_core.optimizers.optimization import Optimization
from detection_core.optimizers.schedules import CosineDecay, CosineDecayOptions
from detection_core.protos.optimizer_pb2 import Optimizer
from detection_core.structures import Batch
from detection_core.training import loop
from detection_core.training.actions import HistoryFile, TrainingAction
from detection_core.training.guard import SkippedUpdate
from detection_core.training.loop import TrainingResult, run_training
from detection_core.training.loop_options import StepReport, TrainOptions
from detection_core.training.precision import Precision
from detection_core.training.step import new_step
from tests.support.tiny_model import TinyModel, make_dataset


def momentum(base: float = 0.1, average: float = 0.0) -> Optimization:
    options = CosineDecayOptions(
        learning_rate_base=base, total_steps=10, warmup_learning_rate=base / 10, warmup_steps=3
    )
    rate = CosineDecay(options)
    optimizer = tf_keras.optimizers.legacy.SGD(learning_rate=rate, momentum=0.9)
    return Optimization(optimizer=optimizer, average_decay=average)


class Crash(TrainingAction):
    """Raises at a step, as a kill would end the process there."""

    def __init__(self, at: int) -> None:
        self.at = at

    def report(self, report: StepReport) -> None:
        if report.step == self.at:
            raise RuntimeError("killed")


class Collect(TrainingAction):
    def __init__(self) -> None:
        self.reports: list[StepReport] = []

    def report(self, report: StepReport) -> None:
        self.reports.append(report)


def train(model: TinyModel, folder: Path, *actions: TrainingAction, **changes: object) -> TrainingResult:
    options = TrainOptions(**({"num_steps": 10, "log_every": 1, "checkpoint_every": 5} | changes))
    return run_training(model, make_dataset, momentum(average=0.9), options, str(folder), actions=actions)


@pytest.mark.parametrize("killed_at", [5, 7])
def test_killed_and_resumed_training_equals_an_undisturbed_one(tmp_path: Path, killed_at: int) -> None:
    straight = TinyModel()
    whole = train(straight, tmp_path / "straight", HistoryFile(str(tmp_path / "straight.jsonl")))
    # A crash in the report of step 5 comes before its checkpoint, so nothing is there yet at the resume.
    history = str(tmp_path / "killed.jsonl")
    with pytest.raises(RuntimeError, match="killed"):
        train(TinyModel(), tmp_path / "killed", HistoryFile(history), Crash(killed_at))
    resumed = TinyModel(seed=1)  # other weights, all of which the checkpoint must replace
    if killed_at == 5:
        resumed = TinyModel()
    end = train(resumed, tmp_path / "killed", HistoryFile(history))

    assert end.start_step == (5 if killed_at == 7 else 0)
    for a, b in zip(straight.network.variables, resumed.network.variables, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7, err_msg=a.name)
    for a, b in zip(whole.average.averages, end.average.averages, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    lines = [
        [json.loads(x) for x in Path(p).read_text().splitlines()]
        for p in (tmp_path / "straight.jsonl", history)
    ]
    assert [x["step"] for x in lines[0]] == [x["step"] for x in lines[1]] == list(range(1, 11))
    for a, b in zip(*lines, strict=True):
        assert a["learning_rate"] == pytest.approx(b["learning_rate"])
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)


class DroppingModel(TinyModel):
    """A tiny model with dropout and, in a branch, stochastic depth."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        tiny, initializer = self.network, tf_keras.initializers.GlorotUniform(seed=seed + 1)
        features = tiny.get_layer("stem_bn").output
        branch = tf_keras.layers.Conv2D(4, 1, name="branch", kernel_initializer=initializer)(features)
        joined = tf_keras.layers.Add(name="add")([stochastic_depth(0.5, "depth_drop")(branch), features])
        dropped = Dropout(0.3, name="values_drop")(joined)
        outputs = tiny.get_layer("flat")(tiny.get_layer("head")(dropped))
        self.network = tf_keras.Model(tiny.input, outputs, name="dropping")


def test_dropout_and_stochastic_depth_end_alike_after_a_stop(tmp_path: Path) -> None:
    straight, killed = DroppingModel(), DroppingModel()
    chosen = {"num_steps": 3, "checkpoint_every": 1, "gradient_accumulation_steps": 2}
    train(straight, tmp_path / "straight", **chosen)
    with pytest.raises(RuntimeError, match="killed"):
        train(killed, tmp_path / "killed", Crash(2), **chosen)
    tf.random.uniform([3])  # another process has drawn other numbers before
    assert train(killed, tmp_path / "killed", **chosen).start_step == 1
    for one, other in zip(straight.variables, killed.variables, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=one.name)


class Traced(TinyModel):
    """Counts how often its losses are put into a graph."""

    times = 0

    def losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        self.times += 1
        return super().losses(batch, training)


@pytest.mark.parametrize(
    "optimizer",
    [
        "momentum_optimizer { learning_rate { constant_learning_rate {} } }",
        "rms_prop_optimizer { learning_rate { exponential_decay_learning_rate {} } }",
        "adam_optimizer { learning_rate { manual_step_learning_rate { schedule { step: 3 } } } }",
    ],
)
@pytest.mark.parametrize(
    "changes", [{}, {"steps_per_call": 2}, {"max_skipped_updates": 2, "precision": Precision.FLOAT16}]
)
def test_an_update_is_put_into_a_graph_once(
    tmp_path: Path, optimizer: str, changes: dict[str, object]
) -> None:
    """A function whose first call makes variables would be traced twice: half of the first step's time."""
    text = f"{optimizer} use_moving_average: true moving_average_decay: 0.9"
    optimization = build_optimizer(text_format.Parse(text, Optimizer()))
    options = TrainOptions(num_steps=4, summarize_gradients=True, **changes)
    model = Traced()
    run_training(model, make_dataset, optimization, options, str(tmp_path))
    assert model.times == 1


class Ending(TrainingAction):
    def __init__(self) -> None:
        self.told: list[object] = []

    def failed(self, error: BaseException) -> None:
        self.told.append(type(error))

    def close(self) -> None:
        self.told.append("closed")


def test_actions_learn_how_training_ended(tmp_path: Path) -> None:
    crashed, done = Ending(), Ending()
    with pytest.raises(RuntimeError, match="killed"):
        train(TinyModel(), tmp_path, crashed, Crash(2))
    train(TinyModel(), tmp_path, done, num_steps=2)
    assert crashed.told == [RuntimeError, "closed"] and done.told == ["closed"]


def test_a_finished_training_is_restored_without_another_step(tmp_path: Path) -> None:
    first = TinyModel()
    train(first, tmp_path)
    again = TinyModel(seed=3)
    result = train(again, tmp_path)
    assert (result.start_step, result.last_report) == (10, None)
    assert result.checkpoint.endswith("ckpt-10")
    np.testing.assert_array_equal(first.network.variables[0], again.network.variables[0])


def test_several_steps_a_call_give_the_same_weights(tmp_path: Path) -> None:
    one, many = TinyModel(), TinyModel()
    train(one, tmp_path / "one")
    collect = Collect()
    train(many, tmp_path / "many", collect, log_every=4, steps_per_call=3)
    assert [r.step for r in collect.reports] == [4, 8, 10]
    for a, b in zip(one.network.variables, many.network.variables, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_a_loss_that_is_no_number_stops_with_the_step_it_came_from(tmp_path: Path) -> None:
    options = TrainOptions(num_steps=10, log_every=4, checkpoint_every=2)
    with pytest.raises(
        ModelError, match=r"training step 6: .*Loss/total_loss nan.*gradient_clipping_by_norm"
    ):
        run_training(TinyModel(), lambda s: make_dataset(s, poison_at=6), momentum(), options, str(tmp_path))
    kept = sorted(p.name for p in (tmp_path / "checkpoints").glob("*.index"))
    assert kept == ["ckpt-2.index", "ckpt-4.index", "ckpt-6.index"]


class Skipped(TrainingAction):
    def __init__(self) -> None:
        self.steps: list[int] = []

    def skipped(self, update: SkippedUpdate) -> str:
        self.steps.append(update.step)
        return " It is known."


def test_the_weights_stay_those_from_before_what_stopped_the_training(tmp_path: Path) -> None:
    model, before = TinyModel(), TinyModel()
    options = TrainOptions(num_steps=10, log_every=10)
    with pytest.raises(ModelError, match=r"training step 6: .* are kept\. It is known\."):
        run_training(
            model,
            lambda s: make_dataset(s, poison_at=6),
            momentum(),
            options,
            str(tmp_path / "stopped"),
            actions=[Skipped()],
        )
    run_training(before, make_dataset, momentum(), TrainOptions(num_steps=6), str(tmp_path / "before"))
    for a, b in zip(model.network.variables, before.network.variables, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7, err_msg=a.name)


@pytest.mark.parametrize("killed_at", [0, 5])
def test_an_update_that_is_no_number_may_be_left_out_and_counted(tmp_path: Path, killed_at: int) -> None:
    model, skipped, collect = TinyModel(), Skipped(), Collect()
    options = TrainOptions(num_steps=8, log_every=2, checkpoint_every=2, max_skipped_updates=1)

    def run(*actions: TrainingAction) -> TrainingResult:
        return run_training(
            model,
            lambda s: make_dataset(s, poison_at=3),
            momentum(average=0.9),
            options,
            str(tmp_path),
            actions=actions,
        )

    if killed_at:
        with pytest.raises(RuntimeError, match="killed"):
            run(skipped, Crash(6))
        model = TinyModel(seed=1)
    result = run(*([] if killed_at else [skipped]), collect)
    assert skipped.steps == [3] and result.skipped_updates == 1
    assert [r.skipped_updates for r in collect.reports] == ([1, 1] if killed_at else [0, 1, 1, 1])
    assert all(np.all(np.isfinite(v)) for v in model.network.variables)
    assert result.average is not None and all(np.all(np.isfinite(v)) for v in result.average.averages)


def test_an_update_that_is_left_out_changes_nothing_but_the_schedule(tmp_path: Path) -> None:
    models = []
    for poisoned in (5, -1):  # the last of six steps, and none of five
        model, steps = TinyModel(), 6 if poisoned > 0 else 5
        options = TrainOptions(num_steps=steps, log_every=1, max_skipped_updates=1)
        data = lambda s, at=poisoned: make_dataset(s, poison_at=at)  # noqa: E731
        run_training(model, data, momentum(), options, str(tmp_path / str(steps)))
        models.append(model)
    for a, b in zip(*(m.network.variables for m in models), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7, err_msg=a.name)


def test_a_dataset_that_ends_is_refused(tmp_path: Path) -> None:
    options = TrainOptions(num_steps=10, log_every=4)
    with pytest.raises(DataError, match="ended near step 3 of 10"):
        run_training(TinyModel(), lambda s: make_dataset(s).take(3), momentum(), options, str(tmp_path))


class Signal(TrainingAction):
    def __init__(self, number: int, at: int) -> None:
        self.number, self.at = number, at

    def report(self, report: StepReport) -> None:
        if report.step == self.at:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)]
)
def test_a_stop_signal_saves_and_leaves(tmp_path: Path, number: int, error: type[BaseException]) -> None:
    before = signal.getsignal(number)
    with pytest.raises(error):
        train(TinyModel(), tmp_path, Signal(number, at=3))
    assert signal.getsignal(number) is before
    assert train(TinyModel(), tmp_path).start_step == 3


def test_the_step_is_visible_to_the_model_during_training(tmp_path: Path) -> None:
    step = new_step()

    class Delayed(TinyModel):
        def losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
            return super().losses(batch, training) | {"Loss/step": tf.cast(step, tf.float32)}

    collect = Collect()
    run_training(
        Delayed(),
        make_dataset,
        momentum(),
        TrainOptions(num_steps=3, log_every=1),
        str(tmp_path),
        actions=[collect],
        step=step,
    )
    assert [r.losses["Loss/step"] for r in collect.reports] == [0.0, 1.0, 2.0]
    assert int(step) == 3


def test_the_loss_falls_and_reports_say_so(tmp_path: Path) -> None:
    collect = Collect()
    train(TinyModel(), tmp_path, collect, num_steps=40, checkpoint_every=100)
    assert collect.reports[-1].losses["Loss/total_loss"] < 0.8 * collect.reports[0].losses["Loss/total_loss"]
    assert collect.reports[-1].steps_per_second > 0


class Clock(TrainingAction):
    """Of the loop: every step takes two minutes."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def report(self, report: StepReport) -> None:
        self.now += 120


@pytest.mark.parametrize(("minutes", "saved"), [(5.0, [3, 5, 8]), (0.0, [5])])
def test_checkpoints_go_by_time_too_so_that_a_kill_without_a_signal_costs_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: float, saved: list[int]
) -> None:
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)
    with pytest.raises(RuntimeError, match="killed"):
        train(TinyModel(), tmp_path, clock, Crash(9), checkpoint_minutes=minutes)
    found = (p.stem.removeprefix("ckpt-") for p in (tmp_path / "checkpoints").glob("*.index"))
    assert sorted(map(int, found)) == saved
    monkeypatch.undo()
    assert train(TinyModel(), tmp_path).start_step == saved[-1]


def test_a_time_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="checkpoint_minutes must be 0 or more"):
        TrainOptions(num_steps=1, checkpoint_minutes=-1.0)
