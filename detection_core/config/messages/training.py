"""Training: lengths in epochs or steps, optimizers and schedules, train_config, validation and tracking."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.artifacts.evaluation import MAP
from detection_core.config.pipeline_config import Config
from detection_core.detectors.rules import Check, message_name
from detection_core.errors import ConfigError, Problem
from detection_core.protos.automl_learning_rate_pb2 import AutomlCosineLearningRate
from detection_core.protos.input_reader_pb2 import InputReader
from detection_core.protos.monitoring_pb2 import Monitoring
from detection_core.protos.optimizer_pb2 import CosineDecayLearningRate, ManualStepLearningRate
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.precision_pb2 import Precision
from detection_core.protos.train_pb2 import TrainConfig
from detection_core.protos.validation_pb2 import Validation

_MOST = (1 << 32) - 1  # maximum value of the schema's field

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


def both_problems(message: Any, path: str) -> Iterator[Problem]:
    """Find lengths that are set both in epochs and in steps."""
    for epochs, steps in STEPS_OF[message_name(message.DESCRIPTOR)].items():
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
        for epochs, steps in STEPS_OF.get(message_name(message.DESCRIPTOR), {}).items()
        if message.HasField(epochs)
    ]


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


def _manual(schedule: ManualStepLearningRate, path: str) -> Iterator[Problem]:
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


def score_problems(train: TrainConfig, reader: InputReader) -> Iterator[Problem]:
    """Find class scores that training needs but that are not read, and weighted boxes of several classes."""
    if train.use_multiclass_scores and not reader.load_multiclass_scores:
        message = "expected scores to use, found none; set train_input_reader.load_multiclass_scores: true"
        yield Problem(path="train_config.use_multiclass_scores", message=message)
    for field in ("use_multiclass_scores", "merge_multiple_label_boxes"):
        if train.class_weight_power and getattr(train, field):
            message = f"expected 0, as {field} gives boxes several classes, found"
            message += f" {train.class_weight_power:g}; remove one of them"
            yield Problem(path="train_config.class_weight_power", message=message)


def endless_training_problems(train: TrainConfig) -> Iterator[Problem]:
    """Find a training without a length; evaluating or importing a config needs none."""
    if train.num_steps < 1 and not train.num_epochs > 0:
        message = (
            "expected the number of updates, found 0, which would train without end. Set num_steps, or"
            " num_epochs."
        )
        yield Problem(path="train_config.num_steps", message=message)


def _warmup_problems(train: TrainConfig, path: str) -> Iterator[Problem]:
    """Find a warm-up that takes the whole schedule, unless training ends within it."""
    rate = learning_rate_of(train)
    if not isinstance(rate, AutomlCosineLearningRate):
        return
    if 0 < rate.total_steps <= rate.warmup_steps and not 0 < train.num_steps <= rate.warmup_steps:
        message = (
            f"expected warmup_steps below total_steps, which is {rate.total_steps}, found"
            f" {rate.warmup_steps}; shorten the warm-up, or let the training end in it by num_steps"
        )
        where = f"{train.optimizer.WhichOneof('optimizer')}.learning_rate.automl_cosine_learning_rate"
        yield Problem(path=f"{path}.optimizer.{where}.warmup_steps", message=message)


def _problems(train: TrainConfig, path: str) -> Iterator[Problem]:
    yield from _warmup_problems(train, path)
    yield from both_problems(train, path)
    if train.HasField("initial_loss_scale") and train.precision in (Precision.FLOAT32, Precision.BFLOAT16):
        found = Precision.Name(train.precision)
        message = f"expected precision: FLOAT16 or AUTO, as only float16 needs it, found {found}; remove this"
        yield Problem(path=f"{path}.initial_loss_scale", message=message)


def _experiment(message: Monitoring.Mlflow, path: str) -> Iterator[Problem]:
    if not message.experiment.strip():
        yield Problem(
            path=f"{path}.experiment", message="expected a name, found none; give one, or remove it"
        )
    if "@" in message.tracking_uri.partition("://")[2].partition("/")[0]:
        text = (
            "expected an address without a password, as configs are copied and published, found one; set"
            " MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
        )
        yield Problem(path=f"{path}.tracking_uri", message=text)


def _project(message: Monitoring.Wandb, path: str) -> Iterator[Problem]:
    name = message.project
    if not name.strip() or set(name) & set("/\\#?%:"):
        text = f"expected a name without any of / \\ # ? % :, found {name!r}; correct it"
        yield Problem(path=f"{path}.project", message=text)


def validation_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find a validation without images; a workflow fills in its readers later."""
    if config.train_config.HasField("validation") and not config.eval_input_reader:
        text = "expected an eval_input_reader, whose images are validated on, found none; add one"
        yield Problem(path="eval_input_reader", message=text)


def _metric_problems(message: Validation, path: str) -> Iterator[Problem]:
    names = [metric.name for metric in message.metric]
    for i, name in enumerate(names):
        where = f"{path}.metric[{i}].name"
        if not name:
            yield Problem(path=where, message=f"expected the name of a metric, such as {MAP}, found none")
        elif name in names[:i]:
            yield Problem(path=where, message=f"expected each metric once, found {name} again; remove one")
    if message.metric and not any(metric.weight for metric in message.metric):
        text = "expected a weight other than 0, found none, so that all weights would score alike; set one"
        yield Problem(path=f"{path}.metric[0].weight", message=text)


CHECKS: Mapping[str, Check] = {
    "ExponentialDecayLearningRate": both_problems,
    "ManualStepLearningRate": _manual,
    "ManualStepLearningRate.LearningRateSchedule": both_problems,
    "CosineDecayLearningRate": _cosine,
    "TrainConfig": _problems,
    "Monitoring.Mlflow": _experiment,
    "Monitoring.Wandb": _project,
    "Validation": _metric_problems,
}
