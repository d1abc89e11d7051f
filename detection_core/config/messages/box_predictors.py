"""Prediction heads, and the settings of their layers; second stages have their own in their family."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from detection_core.allowed_values import CHANNELS, FRACTION, KERNEL, LAYERS, NOT_NEGATIVE, POSITIVE
from detection_core.config.suggestions import near_names
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.box_predictor_pb2 import WeightSharedConvolutionalBoxPredictor
from detection_core.protos.hyperparams_pb2 import Initializer


def _weight_shared(message: WeightSharedConvolutionalBoxPredictor, path: str) -> Iterator[Problem]:
    if message.num_layers_before_predictor > 0 and message.depth <= 0:
        text = (
            f"expected a positive number of channels for the {message.num_layers_before_predictor} layers"
            f" before the predictor, found {message.depth}; set depth"
        )
        yield Problem(path=f"{path}.depth", message=text)


_LAYERS = {"kernel_size": KERNEL, "box_code_size": POSITIVE, "num_layers_before_predictor": LAYERS}


_CLASSES = (
    "Constant",
    "GlorotNormal",
    "GlorotUniform",
    "HeNormal",
    "HeUniform",
    "LecunNormal",
    "LecunUniform",
    "Ones",
    "Orthogonal",
    "RandomNormal",
    "RandomUniform",
    "TruncatedNormal",
    "VarianceScaling",
    "Zeros",
)
_SNAKE = tuple(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in _CLASSES)
_SCALED = tuple(name for name in _SNAKE if name.startswith(("glorot", "he_", "lecun")))
_SECOND = tuple(f"{name}V2" for name in (*_CLASSES, *_SCALED))

INITIALIZER_NAMES = frozenset((*_CLASSES, *_SNAKE, *_SECOND, "normal", "uniform", "one", "zero"))
"""Names of tf_keras initializers for the kernel of a convolution, which Identity cannot fill."""

_SHOWN = 60


def _initializer(message: Initializer, path: str) -> Iterator[Problem]:
    """Find a name that is no initializer of a convolution's kernel."""
    if message.WhichOneof("initializer_oneof") != "keras_initializer_by_name":
        return
    name = message.keras_initializer_by_name
    if name not in INITIALIZER_NAMES:
        near = near_names(name[:_SHOWN], sorted(INITIALIZER_NAMES), limit=1)
        hint = f"did you mean {near[0]}?" if near else "correct the name"
        text = (
            "expected the name of a tf_keras initializer of convolutions, such as glorot_uniform or"
            f" he_normal, found {name[:_SHOWN]!r}; {hint}"
        )
        yield Problem(path=f"{path}.keras_initializer_by_name", message=text)


RULES: Mapping[str, Rules] = {
    "BoxPredictor": Rules(
        oneofs=("box_predictor_oneof",),
        refused={
            "rfcn_box_predictor": "R-FCN exists in TensorFlow 1 only; use mask_rcnn_box_predictor for "
            "faster_rcnn, weight_shared_convolutional_box_predictor for ssd",
        },
    ),
    "ConvolutionalBoxPredictor": Rules(
        ranges={**_LAYERS, "min_depth": CHANNELS, "max_depth": CHANNELS},
        refused={
            "apply_sigmoid_to_scores": "scores are made from logits in one place; set "
            "post_processing.score_converter: SIGMOID"
        },
    ),
    "WeightSharedConvolutionalBoxPredictor": Rules(
        ranges={**_LAYERS, "depth": CHANNELS}, check=_weight_shared
    ),
    "Hyperparams": Rules(
        without_effect={
            "regularize_depthwise": "the regularizer alone says which kernels are penalised",
            "op": "whether layers are convolutions or dense follows from their place",
        },
        refused={"group_norm": "no detector here is made with it; use batch_norm"},
    ),
    "L1Regularizer": Rules(ranges={"weight": NOT_NEGATIVE}),
    "L2Regularizer": Rules(ranges={"weight": NOT_NEGATIVE}),
    "Initializer": Rules(check=_initializer),
    "TruncatedNormalInitializer": Rules(ranges={"stddev": NOT_NEGATIVE}),
    "RandomNormalInitializer": Rules(ranges={"stddev": NOT_NEGATIVE}),
    "BatchNorm": Rules(ranges={"decay": FRACTION, "epsilon": POSITIVE}),
}
