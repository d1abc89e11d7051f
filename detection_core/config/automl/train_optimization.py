"""Translate the hyper-parameters of training: optimizer, schedule, clipping and moving average."""

import dataclasses
from collections.abc import Callable, Mapping

from detection_core.config.automl.hyperparameters import HyperParameters
from detection_core.protos.optimizer_pb2 import LearningRate, Optimizer
from detection_core.protos.precision_pb2 import Precision
from detection_core.protos.train_pb2 import TrainConfig

IMAGES_OF_A_RATE = 64
"""Batch size that `learning_rate` refers to."""
_ADAM_EPSILON = 1e-7  # Keras' default, which google/automl keeps


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunLength:
    """Images per update over all replicas, and whole updates per epoch, for the schedules."""

    batch_size: int
    steps_per_epoch: int

    def steps(self, epochs: float) -> int:
        """Convert a length in epochs to whole updates."""
        return int(epochs * self.steps_per_epoch)


def fill_optimization(train: TrainConfig, values: HyperParameters, length: RunLength) -> None:
    """Set the `train_config` fields that the optimization hyper-parameters control.

    `train` is changed in place, including its batch_size and num_steps.
    """
    train.batch_size = length.batch_size
    train.num_steps = length.steps(values.num_epochs)
    train.precision = Precision.AUTO if values.mixed_precision else Precision.FLOAT32
    if values.mixed_precision and values.loss_scale:
        train.initial_loss_scale = values.loss_scale
    clip = max(values.clip_gradients_norm, 0.0)
    train.gradient_clipping_by_variable_norm = train.gradient_clipping_by_norm = clip
    rate = OPTIMIZERS[values.optimizer](train.optimizer, values)
    schedule = getattr(rate, f"automl_{values.lr_decay_method}_learning_rate")
    schedule.learning_rate = values.learning_rate * length.batch_size / IMAGES_OF_A_RATE
    schedule.warmup_learning_rate = values.lr_warmup_init
    schedule.warmup_steps = length.steps(values.lr_warmup_epoch)
    for field, epochs in SCHEDULES[values.lr_decay_method].items():
        setattr(schedule, field, length.steps(getattr(values, epochs)))
    if values.lr_decay_method == "polynomial":
        schedule.power = values.poly_lr_power
    train.optimizer.use_moving_average = values.moving_average_decay > 0
    if values.moving_average_decay > 0:
        train.optimizer.moving_average_decay = values.moving_average_decay
        train.optimizer.moving_average_from_weights = True


def _sgd(optimizer: Optimizer, values: HyperParameters) -> LearningRate:
    optimizer.momentum_optimizer.momentum_optimizer_value = values.momentum
    return optimizer.momentum_optimizer.learning_rate


def _adam(optimizer: Optimizer, values: HyperParameters) -> LearningRate:
    optimizer.adam_optimizer.beta_1 = values.momentum
    optimizer.adam_optimizer.epsilon = _ADAM_EPSILON
    return optimizer.adam_optimizer.learning_rate


OPTIMIZERS: Mapping[str, Callable[[Optimizer, HyperParameters], LearningRate]] = {"sgd": _sgd, "adam": _adam}
"""google/automl's optimizer name to a function that sets the optimizer and returns its learning rate."""

SCHEDULES: Mapping[str, Mapping[str, str]] = {
    "cosine": {"total_steps": "num_epochs"},
    "polynomial": {"total_steps": "num_epochs"},
    "stepwise": {"first_drop_step": "first_lr_drop_epoch", "second_drop_step": "second_lr_drop_epoch"},
}
"""google/automl's `lr_decay_method` to the schedule's lengths, each with its hyper-parameter in epochs."""
