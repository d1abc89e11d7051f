"""BoxPredictor messages -> prediction heads and the hyperparameters of their layers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from detection_core.builders.hyperparams import build_hyperparams
from detection_core.builders.oneof import build_oneof
from detection_core.parts.heads.convolutional import ConvolutionalHead, ConvolutionalHeadOptions
from detection_core.parts.heads.predictions import PredictionHead
from detection_core.parts.heads.weight_shared import WeightSharedHead, WeightSharedHeadOptions
from detection_core.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.protos.box_predictor_pb2 import (
    BoxPredictor,
    ConvolutionalBoxPredictor,
    WeightSharedConvolutionalBoxPredictor,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadPlan:
    """A head and the hyperparameters of its layers.

    Attributes:
        head: adds the layers to a network.
        hyperparams: of the layers.
        code_clip: smallest and largest box code; minus and plus infinity for no bounds.
        code_size: numbers in a box code.
    """

    head: PredictionHead
    hyperparams: LayerHyperparams
    code_clip: tuple[float, float] = (-math.inf, math.inf)
    code_size: int = 4


def _clip_range(
    message: ConvolutionalBoxPredictor | WeightSharedConvolutionalBoxPredictor,
) -> tuple[float, float]:
    if not message.HasField("box_encodings_clip_range"):
        return -math.inf, math.inf
    return message.box_encodings_clip_range.min, message.box_encodings_clip_range.max


def _options(
    options_class: type,
    message: ConvolutionalBoxPredictor | WeightSharedConvolutionalBoxPredictor,
    **by_hand: Any,
) -> Any:
    """Fill the options whose fields carry the message's field names."""
    names = {field.name for field in dataclasses.fields(options_class)} - set(by_hand)
    return options_class(**{name: getattr(message, name) for name in sorted(names)}, **by_hand)


def _convolutional(message: ConvolutionalBoxPredictor) -> HeadPlan:
    return HeadPlan(
        head=ConvolutionalHead(_options(ConvolutionalHeadOptions, message)),
        hyperparams=build_hyperparams(message.conv_hyperparams),
        code_clip=_clip_range(message),
    )


SCORE_CONVERTERS = {
    WeightSharedConvolutionalBoxPredictor.IDENTITY: "identity",
    WeightSharedConvolutionalBoxPredictor.SIGMOID: "sigmoid",
}


def _weight_shared(message: WeightSharedConvolutionalBoxPredictor) -> HeadPlan:
    converter = SCORE_CONVERTERS[message.score_converter]
    return HeadPlan(
        head=WeightSharedHead(_options(WeightSharedHeadOptions, message, score_converter=converter)),
        hyperparams=build_hyperparams(message.conv_hyperparams),
        code_clip=_clip_range(message),
    )


BOX_PREDICTORS: dict[str, Callable[[Any], HeadPlan]] = {
    "convolutional_box_predictor": _convolutional,
    "weight_shared_convolutional_box_predictor": _weight_shared,
}


def build_head(message: BoxPredictor, *, code_size: int = 4) -> HeadPlan:
    """Read the prediction head of a one-stage detector.

    Args:
        message: the message, checked.
        code_size: numbers in a code of the detector's box coder.
    """
    plan = build_oneof(message, "box_predictor_oneof", BOX_PREDICTORS)
    return dataclasses.replace(plan, code_size=code_size)
