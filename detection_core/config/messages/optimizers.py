"""Optimizers and learning rate schedules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from detection_core.allowed_values import DECAY, FRACTION, NOT_NEGATIVE, POSITIVE, Range
from detection_core.config.messages.epochs import EPOCHS, both_problems
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.automl_learning_rate_pb2 import (
    AutomlStepwiseLearningRate,
)
from detection_core.protos.optimizer_pb2 import (
    CosineDecayLearningRate,
    ExponentialDecayLearningRate,
    ManualStepLearningRate,
)


def _exponential(schedule: ExponentialDecayLearningRate, path: str) -> Iterator[Problem]:
    yield from both_problems(schedule, path)
    if schedule.min_learning_rate > schedule.initial_learning_rate:
        first, lowest = schedule.initial_learning_rate, schedule.min_learning_rate
        message = f"expected at most initial_learning_rate, which is {first:g}, found {lowest:g}"
        yield Problem(path=f"{path}.min_learning_rate", message=message)


def _manual(schedule: ManualStepLearningRate, path: str) -> Iterator[Problem]:
    if not schedule.schedule:
        message = (
            "expected at least one entry, found none; a rate that never changes is constant_learning_rate"
        )
        yield Problem(path=f"{path}.schedule", message=message)
    units = {"epoch" if entry.HasField("epoch") else "step" for entry in schedule.schedule}
    if len(units) > 1:
        message = "expected all entries in steps or all in epochs, found both; use one unit"
        yield Problem(path=f"{path}.schedule", message=message)
        return
    previous = 0.0
    for i, entry in enumerate(schedule.schedule):
        unit = next(iter(units))
        start = getattr(entry, unit)
        if start <= previous:
            message = f"expected a {unit} above {previous:.9g}, later than the one before, found {start:.9g}"
            if not i:
                message += "; give its rate to initial_learning_rate and remove the entry"
            yield Problem(path=f"{path}.schedule[{i}].{unit}", message=message)
        previous = start


def _cosine(schedule: CosineDecayLearningRate, path: str) -> Iterator[Problem]:
    yield from both_problems(schedule, path)
    # A length in steps and one in epochs are compared once the examples are counted.
    units = {
        field: "epochs" if schedule.HasField(f"{field}_epochs") else "steps" for field in ("total", "warmup")
    }
    unit = units["warmup"]
    warmup, total = (getattr(schedule, f"{field}_{unit}") for field in ("warmup", "total"))
    if units["total"] == unit and warmup > total:
        message = f"expected at most total_{unit}, which is {total:.9g}, found {warmup:.9g}"
        yield Problem(path=f"{path}.warmup_{unit}", message=message)
    if warmup and schedule.warmup_learning_rate > schedule.learning_rate_base:
        base = schedule.learning_rate_base
        message = (
            f"expected at most learning_rate_base, which is {base:g}, found {schedule.warmup_learning_rate:g}"
        )
        yield Problem(path=f"{path}.warmup_learning_rate", message=message)


def _automl_stepwise(schedule: AutomlStepwiseLearningRate, path: str) -> Iterator[Problem]:
    if schedule.second_drop_step < schedule.first_drop_step:
        message = (
            f"expected at least first_drop_step, which is {schedule.first_drop_step}, found"
            f" {schedule.second_drop_step}; exchange them"
        )
        yield Problem(path=f"{path}.second_drop_step", message=message)


_RATE = Range(0, math.inf, "a learning rate of 0 or more")
_AUTOML = {"learning_rate": _RATE, "warmup_learning_rate": _RATE}
_OPTIMIZER = ("learning_rate",)

RULES: Mapping[str, Rules] = {
    "Optimizer": Rules(ranges={"moving_average_decay": DECAY}, oneofs=("optimizer",)),
    "RMSPropOptimizer": Rules(ranges={"decay": FRACTION, "epsilon": NOT_NEGATIVE}, parts=_OPTIMIZER),
    "MomentumOptimizer": Rules(parts=_OPTIMIZER),
    "AdamOptimizer": Rules(ranges={"beta_1": DECAY, "beta_2": DECAY}, parts=_OPTIMIZER),
    "LearningRate": Rules(oneofs=("learning_rate",)),
    "ConstantLearningRate": Rules(ranges={"learning_rate": _RATE}),
    "ExponentialDecayLearningRate": Rules(
        ranges={
            "initial_learning_rate": _RATE,
            "decay_steps": POSITIVE,
            "decay_factor": POSITIVE,
            "decay_epochs": EPOCHS,
            "burnin_epochs": EPOCHS,
        },
        check=_exponential,
    ),
    "ManualStepLearningRate": Rules(ranges={"initial_learning_rate": _RATE}, check=_manual),
    "ManualStepLearningRate.LearningRateSchedule": Rules(
        ranges={"learning_rate": _RATE, "epoch": EPOCHS}, check=both_problems
    ),
    "AutomlCosineLearningRate": Rules(ranges={**_AUTOML, "total_steps": POSITIVE}),
    "AutomlPolynomialLearningRate": Rules(ranges={**_AUTOML, "total_steps": POSITIVE, "power": NOT_NEGATIVE}),
    "AutomlStepwiseLearningRate": Rules(
        ranges={**_AUTOML, "first_drop_step": POSITIVE, "second_drop_step": POSITIVE}, check=_automl_stepwise
    ),
    "CosineDecayLearningRate": Rules(
        ranges={
            "learning_rate_base": _RATE,
            "total_epochs": EPOCHS,
            "warmup_epochs": EPOCHS,
            "hold_base_rate_epochs": EPOCHS,
        },
        check=_cosine,
    ),
}
