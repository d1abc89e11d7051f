"""Build prediction heads from BoxPredictor messages, and layer settings from Hyperparams messages."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import tf_keras

from detection_core.builders.oneof import from_fields, oneof_builder
from detection_core.parts import heads
from detection_core.parts.layers.layer_hyperparams import (
    GLOROT_UNIFORM,
    BatchNormOptions,
    InitializerOptions,
    LayerHyperparams,
    Regularizer,
)
from detection_core.protos import hyperparams_pb2
from detection_core.protos.box_predictor_pb2 import WeightSharedConvolutionalBoxPredictor
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


def _normal(
    class_name: str, message: TruncatedNormalInitializer | RandomNormalInitializer
) -> InitializerOptions:
    arguments = {"mean": message.mean, "stddev": message.stddev}
    return InitializerOptions(class_name=class_name, arguments=arguments)


def _variance_scaling(message: VarianceScalingInitializer) -> InitializerOptions:
    return InitializerOptions(
        class_name="VarianceScaling",
        arguments={
            "scale": message.factor,
            "mode": VarianceScalingInitializer.Mode.Name(message.mode).lower(),
            "distribution": "uniform" if message.uniform else "truncated_normal",
        },
    )


INITIALIZERS: dict[str, Callable[[Any], InitializerOptions]] = {
    "truncated_normal_initializer": functools.partial(_normal, "TruncatedNormal"),
    "variance_scaling_initializer": _variance_scaling,
    "random_normal_initializer": functools.partial(_normal, "RandomNormal"),
    "keras_initializer_by_name": lambda name: InitializerOptions(
        class_name=type(tf_keras.initializers.get(name)).__name__
    ),
}
REGULARIZERS = {"l1_regularizer": "l1", "l2_regularizer": "l2"}
NORMALIZERS = ("batch_norm", "sync_batch_norm")


def build_hyperparams(message: Hyperparams) -> LayerHyperparams:
    """Read the settings of a group of convolutions from a checked message.

    Without an initializer, kernels use tf_keras' default, Glorot's uniform distribution.
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
    return from_fields(
        BatchNormOptions, options, momentum=options.decay, synchronized=arm == "sync_batch_norm"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadPlan:
    """A head and the hyperparameters of its layers.

    Attributes:
        head: adds the layers to a network.
        hyperparams: of the layers.
        code_clip: smallest and largest box code; infinite where unbounded.
    """

    head: heads.PredictionHead
    hyperparams: LayerHyperparams
    code_clip: tuple[float, float] = (-math.inf, math.inf)


def _head_plan(make: type[heads.PredictionHead], message: Any, **given: Any) -> HeadPlan:
    clip, is_clipped = message.box_encodings_clip_range, message.HasField("box_encodings_clip_range")
    return HeadPlan(
        head=from_fields(make, message, **given),
        hyperparams=build_hyperparams(message.conv_hyperparams),
        code_clip=(clip.min, clip.max) if is_clipped else (-math.inf, math.inf),
    )


def _weight_shared(message: WeightSharedConvolutionalBoxPredictor) -> HeadPlan:
    converter = message.ScoreConverter.Name(message.score_converter).lower()
    return _head_plan(heads.WeightSharedHead, message, score_converter=converter)


BOX_PREDICTORS: dict[str, Callable[[Any], HeadPlan]] = {
    "convolutional_box_predictor": functools.partial(_head_plan, heads.ConvolutionalHead),
    "weight_shared_convolutional_box_predictor": _weight_shared,
}
build_head = oneof_builder("box_predictor_oneof", BOX_PREDICTORS)
