"""Validation while training from `train_config.validation` and `eval_config`."""

from __future__ import annotations

import dataclasses

from detection_core.artifacts.coco_names import MAP
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.protos.validation_pb2 import Validation
from detection_core.training.validation import ValidationOptions

PICTURES = 4
"""Images drawn at each validation where `eval_config.num_visualizations` is not given."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationPlan:
    """What a config says of validation while training.

    Attributes:
        options: when, by which score, and what follows.
        max_images: at most so many images, the same each time; 0: all.
        writes_best: the best weights are written, not the last ones.
        pictures: images drawn at each validation, the same each time.
    """

    options: ValidationOptions
    max_images: int
    writes_best: bool
    pictures: int = PICTURES


def build_validation(config: CheckedConfig, *, checkpoint_every: int) -> ValidationPlan | None:
    """Read what a checked config says of validation while training.

    It is on where `train_config.validation` is set, or `eval_config.eval_interval_secs` is given as for the
    Object Detection API's evaluation beside a training.

    Args:
        config: its input readers are filled in.
        checkpoint_every: updates between checkpoints, and between validations where nothing else is said.

    Returns:
        None where it is off.
    """
    message, evaluation = config.train_config.validation, config.eval_config
    seconds = evaluation.eval_interval_secs if evaluation.HasField("eval_interval_secs") else 0
    if not config.train_config.HasField("validation") and not (seconds and config.eval_input_reader):
        return None
    minutes = message.every_minutes or (0.0 if message.every_steps else seconds / 60)
    objective = {metric.name: metric.weight for metric in message.metric}
    return ValidationPlan(
        options=ValidationOptions(
            every_steps=message.every_steps or (0 if minutes else checkpoint_every),
            every_minutes=minutes,
            objective=objective or {MAP: 1.0},
            keep_best=message.keep_best,
            patience=message.patience,
            min_gain=message.min_gain,
            averaged=evaluation.use_moving_averages,
        ),
        max_images=message.max_images,
        writes_best=message.weights == Validation.BEST,
        pictures=evaluation.num_visualizations if evaluation.HasField("num_visualizations") else PICTURES,
    )
