"""Build an `Optimization` from Optimizer messages."""

import logging
from collections.abc import Callable
from typing import Any

import tf_keras

from detection_core.builders.oneof import oneof_builder, same_fields
from detection_core.optimizers import optimization
from detection_core.optimizers.optimization import Optimization
from detection_core.protos import optimizer_pb2

_logger = logging.getLogger(__name__)


def _manual(message: optimizer_pb2.ManualStepLearningRate) -> optimization.Schedule:
    return optimization.ManualStep(
        initial_learning_rate=message.initial_learning_rate,
        boundaries=tuple(entry.step for entry in message.schedule),
        learning_rates=tuple(entry.learning_rate for entry in message.schedule),
        warmup=message.warmup,
    )


LEARNING_RATES: dict[str, Callable[[Any], optimization.Schedule]] = {
    "constant_learning_rate": same_fields(optimization.Constant),
    "exponential_decay_learning_rate": same_fields(optimization.ExponentialDecay),
    "manual_step_learning_rate": _manual,
    "cosine_decay_learning_rate": same_fields(optimization.CosineDecay),
    "automl_cosine_learning_rate": same_fields(optimization.AutomlCosine),
    "automl_polynomial_learning_rate": same_fields(optimization.AutomlPolynomial),
    "automl_stepwise_learning_rate": same_fields(optimization.AutomlStepwise),
}
build_learning_rate = oneof_builder("learning_rate", LEARNING_RATES)


# tf_keras' `decay` divides the rate by (1 + decay * updates). The Object Detection API passes RMSProp's
# `decay` field to it and leaves the discounting factor rho at 0.9. Its TensorFlow 1 version set rho.
def _rms_prop(message: optimizer_pb2.RMSPropOptimizer) -> Any:
    if message.decay:
        _logger.warning(
            "rms_prop_optimizer.decay %g divides the learning rate by 1 + %g x updates, as the Object"
            " Detection API for TensorFlow 2 does. In TensorFlow 1 it meant a discount of 0.9; set decay: 0"
            " for that",
            message.decay,
            message.decay,
        )
    return tf_keras.optimizers.legacy.RMSprop(
        learning_rate=build_learning_rate(message.learning_rate),
        decay=message.decay,
        momentum=message.momentum_optimizer_value,
        epsilon=message.epsilon,
    )


def _momentum(message: optimizer_pb2.MomentumOptimizer) -> Any:
    return tf_keras.optimizers.legacy.SGD(
        learning_rate=build_learning_rate(message.learning_rate), momentum=message.momentum_optimizer_value
    )


def _adam(message: optimizer_pb2.AdamOptimizer) -> Any:
    return tf_keras.optimizers.legacy.Adam(
        learning_rate=build_learning_rate(message.learning_rate),
        beta_1=message.beta_1,
        beta_2=message.beta_2,
        epsilon=message.epsilon,
    )


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "rms_prop_optimizer": _rms_prop,
    "momentum_optimizer": _momentum,
    "adam_optimizer": _adam,
}


def build_optimizer(message: optimizer_pb2.Optimizer) -> Optimization:
    """Build the optimizer of a checked message, its learning rate and the moving average's decay.

    Call it inside the distribution strategy's scope: the optimizer creates variables.
    """
    return Optimization(
        optimizer=oneof_builder("optimizer", OPTIMIZERS)(message),
        average_decay=message.moving_average_decay if message.use_moving_average else 0.0,
        average_from_weights=message.moving_average_from_weights,
    )
