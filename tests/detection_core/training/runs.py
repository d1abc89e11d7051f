"""Small trainings, undisturbed and disturbed, for the tests of this folder."""

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import tf_keras

from detection_core.optimizers.optimization import Constant, CosineDecay, Optimization
from detection_core.training.actions import TrainingAction
from detection_core.training.loop import TrainingResult, run_training
from detection_core.training.loop_options import StepReport, TrainOptions
from detection_core.training.step import TrainState
from tests.support.tiny_model import TinyModel, make_dataset

RATE = 0.1


def state_of(model: TinyModel, options: TrainOptions) -> TrainState:
    """A state whose updates are plain steps down the gradient."""
    optimizer = tf_keras.optimizers.legacy.SGD(Constant(learning_rate=RATE))
    return TrainState(model, Optimization(optimizer=optimizer), options, None)


def momentum(base: float = 0.1, average: float = 0.0) -> Optimization:
    """Momentum with a schedule of ten steps."""
    warmup = {"warmup_learning_rate": base / 10, "warmup_steps": 3}
    rate = CosineDecay(learning_rate_base=base, total_steps=10, **warmup)
    optimizer = tf_keras.optimizers.legacy.SGD(rate, momentum=0.9)
    return Optimization(optimizer=optimizer, average_decay=average)


class Crash(TrainingAction):
    """Raises at a step, as a kill would end the process there."""

    def __init__(self, at: int) -> None:
        self.at = at

    def report(self, report: StepReport) -> None:
        if report.step == self.at:
            raise RuntimeError("killed")


class Signal(TrainingAction):
    """Sends this process a signal at a step."""

    def __init__(self, number: int, at: int) -> None:
        self.number, self.at = number, at

    def report(self, report: StepReport) -> None:
        if report.step == self.at:
            os.kill(os.getpid(), self.number)


class Seen(TrainingAction):
    """Keeps every report and, of a given model, the weights at each."""

    def __init__(self, model: TinyModel | None = None) -> None:
        self.model, self.reports, self.weights = model, [], {}

    def report(self, report: StepReport) -> None:
        self.reports.append(report)
        if self.model:
            self.weights[report.step] = [variable.numpy() for variable in self.model.variables]


@dataclasses.dataclass(frozen=True)
class Run:
    """An undisturbed training: its folder, its model, how it ended, what was seen on the way."""

    folder: Path
    model: TinyModel
    result: TrainingResult
    seen: Seen

    def copy(self, step: int, folder: Path) -> Path:
        """Copy what a kill leaves of it whose last checkpoint is of that step."""
        (folder / "checkpoints").mkdir(parents=True)
        for file in (self.folder / "checkpoints").glob(f"ckpt-{step}.*"):
            shutil.copy(file, folder / "checkpoints")
        return folder


def train(model: TinyModel, folder, *actions: TrainingAction, data=make_dataset, validation=None, **changes):
    """Train for ten steps with reports of each and two checkpoints, or as the changes say."""
    options = TrainOptions(**({"num_steps": 10, "log_every": 1, "checkpoint_every": 5} | changes))
    chosen = {"actions": actions, "validation": validation}
    return run_training(model, data, momentum(average=0.9), options, str(folder), **chosen)


def kept(folder: Path, name: str = "checkpoints") -> list[int]:
    """Return the steps of the checkpoints of a training, or of the `best` ones."""
    return sorted(int(path.stem.removeprefix("ckpt-")) for path in (folder / name).glob("*.index"))


def flip_a_byte(path: Path) -> None:
    """Change a byte in the middle of a file, as a disk does."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def whole_run(folder: Path, model: TinyModel | None = None, *actions: TrainingAction, **changes: Any) -> Run:
    """Train without a disturbance."""
    model = model or TinyModel()
    seen = Seen(model)
    return Run(folder, model, train(model, folder, seen, *actions, **changes), seen)


def assert_equal(ones: Any, others: Any, rtol: float = 1e-5, atol: float = 1e-7) -> None:
    """Expect the same values; with a tolerance of 0 to the bit."""
    for number, (one, other) in enumerate(zip(ones, others, strict=True)):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol, err_msg=str(number))
