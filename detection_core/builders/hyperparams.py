"""Hyperparams messages -> `LayerHyperparams`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tf_keras

from detection_core.parts.layers.layer_hyperparams import (
    GLOROT_UNIFORM,
    BatchNormOptions,
    InitializerOptions,
    LayerHyperparams,
    Regularizer,
)
from detection_core.protos import hyperparams_pb2
from detection_core.protos.hyperparams_pb2 import (
    Hyperparams,
    Initializer,
    RandomNormalInitializer,
    TruncatedNormalInitializer,
    VarianceScalingInitializer,
)

ACTIVATIONS = {
    Hyperparams.NONE: "none",
    Hyperparams.RELU: "relu",
    Hyperparams.RELU_6: "relu6",
    Hyperparams.SWISH: "swish",
}
VARIANCE_SCALING_MODES = {
    VarianceScalingInitializer.FAN_IN: "fan_in",
    VarianceScalingInitializer.FAN_OUT: "fan_out",
    VarianceScalingInitializer.FAN_AVG: "fan_avg",
}


def _truncated_normal(message: TruncatedNormalInitializer) -> InitializerOptions:
    arguments = {"mean": message.mean, "stddev": message.stddev}
    return InitializerOptions(class_name="TruncatedNormal", arguments=arguments)


def _random_normal(message: RandomNormalInitializer) -> InitializerOptions:
    arguments = {"mean": message.mean, "stddev": message.stddev}
    return InitializerOptions(class_name="RandomNormal", arguments=arguments)


def _variance_scaling(message: VarianceScalingInitializer) -> InitializerOptions:
    return InitializerOptions(
        class_name="VarianceScaling",
        arguments={
            "scale": message.factor,
            "mode": VARIANCE_SCALING_MODES[message.mode],
            "distribution": "uniform" if message.uniform else "truncated_normal",
        },
    )


def _by_name(name: str) -> InitializerOptions:
    return InitializerOptions(class_name=type(tf_keras.initializers.get(name)).__name__)


INITIALIZERS: dict[str, Callable[[Any], InitializerOptions]] = {
    "truncated_normal_initializer": _truncated_normal,
    "variance_scaling_initializer": _variance_scaling,
    "random_normal_initializer": _random_normal,
    "keras_initializer_by_name": _by_name,
}
REGULARIZERS = {"l1_regularizer": "l1", "l2_regularizer": "l2"}
NORMALIZERS = ("batch_norm", "sync_batch_norm")


def build_hyperparams(message: Hyperparams) -> LayerHyperparams:
    """Read the settings of a group of convolutions from a checked message.

    Without an initializer kernels are drawn as tf_keras does by itself, with Glorot's uniform distribution.
    """
    return LayerHyperparams(
        initializer=_build_initializer(message.initializer),
        regularizer=_build_regularizer(message.regularizer),
        batch_norm=_build_batch_norm(message),
        activation=ACTIVATIONS[message.activation],
        force_use_bias=message.force_use_bias,
    )


def _build_initializer(message: Initializer) -> InitializerOptions:
    arm = message.WhichOneof("initializer_oneof")
    if arm is None:
        return GLOROT_UNIFORM
    return INITIALIZERS[arm](getattr(message, arm))


def _build_regularizer(message: hyperparams_pb2.Regularizer) -> Regularizer | None:
    arm = message.WhichOneof("regularizer_oneof")
    if arm is None:
        return None
    return Regularizer(kind=REGULARIZERS[arm], weight=getattr(message, arm).weight)


def _build_batch_norm(message: Hyperparams) -> BatchNormOptions | None:
    arm = message.WhichOneof("normalizer_oneof")
    if arm is None:
        return None
    options = getattr(message, arm)
    return BatchNormOptions(
        momentum=options.decay,
        epsilon=options.epsilon,
        center=options.center,
        scale=options.scale,
        train=options.train,
        synchronized=arm == "sync_batch_norm",
    )
