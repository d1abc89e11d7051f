import dataclasses
import math

import pytest

from detection_core.builders.heads import build_head
from detection_core.detectors.parts.heads.convolutional import ConvolutionalHead, ConvolutionalHeadOptions
from detection_core.detectors.parts.heads.weight_shared import WeightSharedHead, WeightSharedHeadOptions
from detection_core.protos import box_predictor_pb2
from tests.support.configs import parsed


def _build(text):
    return build_head(parsed(box_predictor_pb2.BoxPredictor, text), "p")


def test_defaults_of_options_are_those_of_the_schema():
    for message, options in (
        (box_predictor_pb2.ConvolutionalBoxPredictor(), ConvolutionalHeadOptions()),
        (box_predictor_pb2.WeightSharedConvolutionalBoxPredictor(), WeightSharedHeadOptions()),
    ):
        for name in dataclasses.asdict(options).keys() - {"score_converter"}:
            assert getattr(options, name) == pytest.approx(getattr(message, name)), name


def test_settings_are_read():
    plan = _build(
        "convolutional_box_predictor { min_depth: 2 max_depth: 9 num_layers_before_predictor: 1"
        " use_dropout: false dropout_keep_probability: 0.5 kernel_size: 3 class_prediction_bias_init: -1"
        " use_depthwise: true box_encodings_clip_range { min: -8 max: 9 }"
        " conv_hyperparams { activation: NONE } }"
    )
    assert isinstance(plan.head, ConvolutionalHead)
    assert plan.head._options == ConvolutionalHeadOptions(
        min_depth=2, max_depth=9, num_layers_before_predictor=1, kernel_size=3, use_depthwise=True,
        use_dropout=False, dropout_keep_probability=0.5, class_prediction_bias_init=-1.0,
    )  # fmt: skip
    assert plan.code_clip == (-8.0, 9.0)
    assert plan.hyperparams.activation == "none"
    plan = _build(
        "weight_shared_convolutional_box_predictor { depth: 32 num_layers_before_predictor: 2 kernel_size: 1"
        " share_prediction_tower: true use_depthwise: true use_dropout: true score_converter: SIGMOID"
        " apply_conv_hyperparams_to_heads: true apply_conv_hyperparams_pointwise: true }"
    )
    assert isinstance(plan.head, WeightSharedHead)
    assert plan.head._options == WeightSharedHeadOptions(
        depth=32, num_layers_before_predictor=2, kernel_size=1, share_prediction_tower=True,
        use_depthwise=True, use_dropout=True, dropout_keep_probability=pytest.approx(0.8),
        score_converter="sigmoid", apply_conv_hyperparams_to_heads=True,
        apply_conv_hyperparams_pointwise=True,
    )  # fmt: skip
    assert plan.code_clip == (-math.inf, math.inf)
