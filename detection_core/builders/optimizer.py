"""Build an `Optimization` from Optimizer messages."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import tf_keras

from detection_core.builders.oneof import build_oneof
from detection_core.optimizers import schedules
from detection_core.optimizers.optimization import Optimization
from detection_core.protos import automl_learning_rate_pb2, optimizer_pb2

_logger = logging.getLogger(__name__)

_Rated = TypeVar(
    "_Rated",
    optimizer_pb2.RMSPropOptimizer,
    optimizer_pb2.MomentumOptimizer,
    optimizer_pb2.AdamOptimizer,
)
"""An optimizer's message; each has a learning rate."""


def _constant(message: optimizer_pb2.ConstantLearningRate) -> schedules.Schedule:
    return schedules.Constant(schedules.ConstantOptions(learning_rate=message.learning_rate))


def _exponential(message: optimizer_pb2.ExponentialDecayLearningRate) -> schedules.Schedule:
    options = schedules.ExponentialDecayOptions(
        initial_learning_rate=message.initial_learning_rate,
        decay_steps=message.decay_steps,
        decay_factor=message.decay_factor,
        staircase=message.staircase,
        burnin_learning_rate=message.burnin_learning_rate,
        burnin_steps=message.burnin_steps,
        min_learning_rate=message.min_learning_rate,
    )
    return schedules.ExponentialDecay(options)


def _manual(message: optimizer_pb2.ManualStepLearningRate) -> schedules.Schedule:
    options = schedules.ManualStepOptions(
        initial_learning_rate=message.initial_learning_rate,
        boundaries=tuple(entry.step for entry in message.schedule),
        learning_rates=tuple(entry.learning_rate for entry in message.schedule),
        warmup=message.warmup,
    )
    return schedules.ManualStep(options)


def _cosine(message: optimizer_pb2.CosineDecayLearningRate) -> schedules.Schedule:
    options = schedules.CosineDecayOptions(
        learning_rate_base=message.learning_rate_base,
        total_steps=message.total_steps,
        warmup_learning_rate=message.warmup_learning_rate,
        warmup_steps=message.warmup_steps,
        hold_base_rate_steps=message.hold_base_rate_steps,
    )
    return schedules.CosineDecay(options)


_Automl = (
    automl_learning_rate_pb2.AutomlCosineLearningRate
    | automl_learning_rate_pb2.AutomlPolynomialLearningRate
    | automl_learning_rate_pb2.AutomlStepwiseLearningRate
)


def _warmup(message: _Automl) -> schedules.WarmupOptions:
    return schedules.WarmupOptions(
        learning_rate=message.learning_rate,
        warmup_learning_rate=message.warmup_learning_rate,
        warmup_steps=message.warmup_steps,
    )


def _automl_cosine(message: automl_learning_rate_pb2.AutomlCosineLearningRate) -> schedules.Schedule:
    return schedules.AutomlCosine(
        schedules.AutomlCosineOptions(warmup=_warmup(message), total_steps=message.total_steps)
    )


def _automl_polynomial(message: automl_learning_rate_pb2.AutomlPolynomialLearningRate) -> schedules.Schedule:
    options = schedules.AutomlPolynomialOptions(
        warmup=_warmup(message), total_steps=message.total_steps, power=message.power
    )
    return schedules.AutomlPolynomial(options)


def _automl_stepwise(message: automl_learning_rate_pb2.AutomlStepwiseLearningRate) -> schedules.Schedule:
    options = schedules.AutomlStepwiseOptions(
        warmup=_warmup(message),
        first_drop_step=message.first_drop_step,
        second_drop_step=message.second_drop_step,
    )
    return schedules.AutomlStepwise(options)


LEARNING_RATES: dict[str, Callable[[Any], schedules.Schedule]] = {
    "constant_learning_rate": _constant,
    "exponential_decay_learning_rate": _exponential,
    "manual_step_learning_rate": _manual,
    "cosine_decay_learning_rate": _cosine,
    "automl_cosine_learning_rate": _automl_cosine,
    "automl_polynomial_learning_rate": _automl_polynomial,
    "automl_stepwise_learning_rate": _automl_stepwise,
}


def build_learning_rate(message: optimizer_pb2.LearningRate) -> schedules.Schedule:
    """Build the learning rate of a checked message."""
    return build_oneof(message, "learning_rate", LEARNING_RATES)


# tf_keras' `decay` divides the rate by (1 + decay * updates). The Object Detection API passes RMSProp's
# `decay` field to it and leaves the discounting factor rho at 0.9. Its TensorFlow 1 version set rho.
def _rms_prop(message: optimizer_pb2.RMSPropOptimizer, rate: schedules.Schedule) -> Any:
    if message.decay:
        _logger.warning(
            "rms_prop_optimizer.decay %g divides the learning rate by 1 + %g x updates, as in the Object"
            " Detection API for TensorFlow 2; for TensorFlow 1's meaning, a discount of 0.9, set decay: 0",
            message.decay,
            message.decay,
        )
    return tf_keras.optimizers.legacy.RMSprop(
        learning_rate=rate,
        decay=message.decay,
        momentum=message.momentum_optimizer_value,
        epsilon=message.epsilon,
    )


def _momentum(message: optimizer_pb2.MomentumOptimizer, rate: schedules.Schedule) -> Any:
    return tf_keras.optimizers.legacy.SGD(learning_rate=rate, momentum=message.momentum_optimizer_value)


def _adam(message: optimizer_pb2.AdamOptimizer, rate: schedules.Schedule) -> Any:
    return tf_keras.optimizers.legacy.Adam(
        learning_rate=rate, beta_1=message.beta_1, beta_2=message.beta_2, epsilon=message.epsilon
    )


def _with_rate(make: Callable[[_Rated, schedules.Schedule], Any]) -> Callable[[_Rated], Any]:
    def build(message: _Rated) -> Any:
        return make(message, build_learning_rate(message.learning_rate))

    return build


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "rms_prop_optimizer": _with_rate(_rms_prop),
    "momentum_optimizer": _with_rate(_momentum),
    "adam_optimizer": _with_rate(_adam),
}


def build_optimizer(message: optimizer_pb2.Optimizer) -> Optimization:
    """Build the optimizer of a checked message, its learning rate and the moving average's decay.

    Call it inside the distribution strategy's scope: the optimizer creates variables.
    """
    optimizer = build_oneof(message, "optimizer", OPTIMIZERS)
    decay = message.moving_average_decay if message.use_moving_average else 0.0
    return Optimization(
        optimizer=optimizer,
        average_decay=decay,
        average_from_weights=message.moving_average_from_weights,
    )
