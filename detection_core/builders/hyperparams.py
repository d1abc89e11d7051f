"""Hyperparams messages -> `LayerHyperparams`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import tf_keras

from detection_core.detectors.parts.layers.layer_hyperparams import (
    GLOROT_UNIFORM,
    BatchNormOptions,
    InitializerOptions,
    LayerHyperparams,
    Penalty,
)
from detection_core.errors import ConfigError
from detection_core.protos import hyperparams_pb2

_logger = logging.getLogger(__name__)

ACTIVATIONS = {
    hyperparams_pb2.Hyperparams.NONE: "none",
    hyperparams_pb2.Hyperparams.RELU: "relu",
    hyperparams_pb2.Hyperparams.RELU_6: "relu6",
    hyperparams_pb2.Hyperparams.SWISH: "swish",
}
VARIANCE_SCALING_MODES = {
    hyperparams_pb2.VarianceScalingInitializer.FAN_IN: "fan_in",
    hyperparams_pb2.VarianceScalingInitializer.FAN_OUT: "fan_out",
    hyperparams_pb2.VarianceScalingInitializer.FAN_AVG: "fan_avg",
}


def _truncated_normal(message: Any, where: str) -> InitializerOptions:
    arguments = {"mean": message.mean, "stddev": message.stddev}
    return InitializerOptions(class_name="TruncatedNormal", arguments=arguments)


def _random_normal(message: Any, where: str) -> InitializerOptions:
    arguments = {"mean": message.mean, "stddev": message.stddev}
    return InitializerOptions(class_name="RandomNormal", arguments=arguments)


def _variance_scaling(message: Any, where: str) -> InitializerOptions:
    return InitializerOptions(
        class_name="VarianceScaling",
        arguments={
            "scale": message.factor,
            "mode": VARIANCE_SCALING_MODES[message.mode],
            "distribution": "uniform" if message.uniform else "truncated_normal",
        },
    )


def _by_name(name: Any, where: str) -> InitializerOptions:
    try:
        initializer = tf_keras.initializers.get(name)
    except ValueError as error:
        raise ConfigError(
            f"expected the name of a tf_keras initializer, such as glorot_uniform or he_normal, found"
            f" {name!r}; correct the name",
            where=where,
        ) from error
    return InitializerOptions(class_name=type(initializer).__name__)


INITIALIZERS: dict[str, Callable[[Any, str], InitializerOptions]] = {
    "truncated_normal_initializer": _truncated_normal,
    "variance_scaling_initializer": _variance_scaling,
    "random_normal_initializer": _random_normal,
    "keras_initializer_by_name": _by_name,
}
REGULARIZERS = {"l1_regularizer": "l1", "l2_regularizer": "l2"}
NORMALIZERS = ("batch_norm", "sync_batch_norm")


def build_hyperparams(message: hyperparams_pb2.Hyperparams, where: str) -> LayerHyperparams:
    """Read the settings of a group of convolutions.

    Without an initializer kernels are drawn as tf_keras does by itself, with Glorot's uniform distribution.

    Raises:
        ConfigError: for group normalisation, dense layers and unknown initializer names.
    """
    if message.op == hyperparams_pb2.Hyperparams.FC:
        raise ConfigError("expected op: CONV for convolutions, found op: FC; remove the field", where=where)
    if message.regularize_depthwise:
        _logger.warning(
            "%s.regularize_depthwise has no effect: the other regularizer settings say which kernels are"
            " penalised",
            where,
        )
    return LayerHyperparams(
        initializer=_build_initializer(message.initializer, f"{where}.initializer"),
        penalty=_build_penalty(message.regularizer),
        batch_norm=_build_batch_norm(message, where),
        activation=ACTIVATIONS[message.activation],
        force_use_bias=message.force_use_bias,
    )


def _build_initializer(message: hyperparams_pb2.Initializer, where: str) -> InitializerOptions:
    arm = message.WhichOneof("initializer_oneof")
    if arm is None:
        return GLOROT_UNIFORM
    return INITIALIZERS[arm](getattr(message, arm), f"{where}.{arm}")


def _build_penalty(message: hyperparams_pb2.Regularizer) -> Penalty | None:
    arm = message.WhichOneof("regularizer_oneof")
    if arm is None:
        return None
    return Penalty(kind=REGULARIZERS[arm], weight=getattr(message, arm).weight)


def _build_batch_norm(message: hyperparams_pb2.Hyperparams, where: str) -> BatchNormOptions | None:
    arm = message.WhichOneof("normalizer_oneof")
    if arm is None:
        return None
    if arm not in NORMALIZERS:
        raise ConfigError(
            f"expected {' or '.join(NORMALIZERS)}, found {arm}, which no detector here is made with; use"
            " batch_norm",
            where=f"{where}.{arm}",
        )
    options = getattr(message, arm)
    return BatchNormOptions(
        momentum=options.decay,
        epsilon=options.epsilon,
        center=options.center,
        scale=options.scale,
        train=options.train,
        synchronized=arm == "sync_batch_norm",
    )
