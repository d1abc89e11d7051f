"""Training lengths given in epochs instead of steps."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.allowed_values import Range
from detection_core.config.pipeline_config import Config
from detection_core.errors import ConfigError, Problem
from detection_core.protos.train_pb2 import TrainConfig

_MOST = (1 << 32) - 1  # maximum value of the schema's field
EPOCHS = Range(0, 1_000_000, "a number from 0 to 1,000,000")

STEPS_OF: Mapping[str, Mapping[str, str]] = {
    "TrainConfig": {"num_epochs": "num_steps", "close_mosaic_epochs": "close_mosaic_steps"},
    "ExponentialDecayLearningRate": {"decay_epochs": "decay_steps", "burnin_epochs": "burnin_steps"},
    "ManualStepLearningRate.LearningRateSchedule": {"epoch": "step"},
    "CosineDecayLearningRate": {
        "total_epochs": "total_steps",
        "warmup_epochs": "warmup_steps",
        "hold_base_rate_epochs": "hold_base_rate_steps",
    },
}
"""Message to its fields in epochs, each with the field in steps that it replaces."""


def epochs_given(message: Any, field: str) -> bool:
    """Tell whether a field in steps is set through its field in epochs."""
    fields = STEPS_OF[_name(message)].items()
    return any(message.HasField(epochs) for epochs, steps in fields if steps == field)


def both_problems(message: Any, path: str) -> Iterator[Problem]:
    """Find lengths that are set both in epochs and in steps."""
    for epochs, steps in STEPS_OF[_name(message)].items():
        if message.HasField(epochs) and message.HasField(steps):
            text = f"expected {epochs} or {steps}, found both; remove one"
            yield Problem(path=f"{path}.{epochs}", message=text)


def fields_in_epochs(train: TrainConfig) -> list[tuple[Any, str, str]]:
    """Return message, name and name in steps of each train_config field that is set in epochs."""
    rate = learning_rate_of(train)
    messages = [train, *([rate] if rate is not None else []), *getattr(rate, "schedule", ())]
    return [
        (message, epochs, steps)
        for message in messages
        for epochs, steps in STEPS_OF.get(_name(message), {}).items()
        if message.HasField(epochs)
    ]


def _name(message: Any) -> str:
    return str(message.DESCRIPTOR.full_name).removeprefix(f"{message.DESCRIPTOR.file.package}.")


def learning_rate_of(train: TrainConfig) -> Any:
    """Return the message of the schedule; None without a schedule."""
    optimizer = train.optimizer.WhichOneof("optimizer")
    if optimizer is None:
        return None
    rate = getattr(train.optimizer, optimizer).learning_rate
    schedule = rate.WhichOneof("learning_rate")
    return getattr(rate, schedule) if schedule else None


def in_steps(config: Config, updates: float) -> Config:
    """Return a config with every length in steps, given the updates per epoch.

    Lengths are rounded to whole updates; a length above 0 is at least one update.

    Raises:
        ConfigError: when a length exceeds the maximum of its field.
    """
    result = copy.deepcopy(config)
    for message, epochs, steps in fields_in_epochs(result.train_config):
        length = getattr(message, epochs)
        count = max(1, round(length * updates)) if length else 0
        if count > _MOST:
            text = f"expected at most {_MOST:,} updates, found {count:,}; train for fewer epochs"
            raise ConfigError(text, where=f"train_config.{epochs}")
        setattr(message, steps, count)
        message.ClearField(epochs)
    return result
