"""Prediction heads; those of the second stage of two-stage detectors are in their family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from detection_core.allowed_values import CHANNELS, KERNEL, LAYERS, POSITIVE
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.box_predictor_pb2 import WeightSharedConvolutionalBoxPredictor


def _weight_shared(message: WeightSharedConvolutionalBoxPredictor, path: str) -> Iterator[Problem]:
    if message.num_layers_before_predictor > 0 and message.depth <= 0:
        text = (
            f"expected a positive number of channels for the {message.num_layers_before_predictor} layers"
            f" before the predictor, found {message.depth}; set depth"
        )
        yield Problem(path=f"{path}.depth", message=text)


_LAYERS = {"kernel_size": KERNEL, "box_code_size": POSITIVE, "num_layers_before_predictor": LAYERS}

RULES: Mapping[str, Rules] = {
    "BoxPredictor": Rules(
        ("builders.heads", "families.faster_rcnn.build"),
        oneofs=("box_predictor_oneof",),
        refused={
            "rfcn_box_predictor": "R-FCN exists in TensorFlow 1 only; use mask_rcnn_box_predictor for "
            "faster_rcnn, weight_shared_convolutional_box_predictor for ssd",
        },
    ),
    "ConvolutionalBoxPredictor": Rules(
        ("builders.heads", "parts.heads.convolutional", "families.ssd.check"),
        ranges={**_LAYERS, "min_depth": CHANNELS, "max_depth": CHANNELS},
        refused={
            "apply_sigmoid_to_scores": "scores are made from logits in one place; set "
            "post_processing.score_converter: SIGMOID"
        },
    ),
    "ConvolutionalBoxPredictor.BoxEncodingsClipRange": Rules("builders.heads"),
    "WeightSharedConvolutionalBoxPredictor": Rules(
        ("builders.heads", "parts.heads.weight_shared", "families.ssd.check"),
        ranges={**_LAYERS, "depth": CHANNELS},
        check=_weight_shared,
    ),
    "WeightSharedConvolutionalBoxPredictor.BoxEncodingsClipRange": Rules("builders.heads"),
}
