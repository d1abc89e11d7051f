"""Build score conversion, calibration and non-max suppression from PostProcessing messages."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from detection_core.builders.oneof import build_oneof, from_fields
from detection_core.ops.nms import NmsOptions
from detection_core.ops.post_processing import (
    Elementwise,
    PerClass,
    PiecewiseLinear,
    PostProcessing,
    ScoreConverter,
    Temperature,
)
from detection_core.protos import calibration_pb2, post_processing_pb2

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Calibration:
    """A calibration and the point of the graph where it applies.

    Attributes:
        function: the mapping.
        on_logits: whether it takes logits rather than scores.
    """

    function: Elementwise
    on_logits: bool


def _piecewise(message: calibration_pb2.XYPairs) -> PiecewiseLinear:
    points = [(pair.x, pair.y) for pair in message.x_y_pair]
    if sorted(points) != points:
        _logger.warning("calibration points are not in rising order of x; scores between them lose meaning")
    return PiecewiseLinear(x=tuple(x for x, _ in points), y=tuple(y for _, y in points))


def _function(message: calibration_pb2.FunctionApproximation) -> Calibration:
    return Calibration(function=_piecewise(message.x_y_pairs), on_logits=False)


def _per_class(message: calibration_pb2.ClassIdFunctionApproximations) -> Calibration:
    functions = {key: _piecewise(pairs) for key, pairs in message.class_id_xy_pairs_map.items()}
    return Calibration(function=PerClass(functions=functions), on_logits=False)


def _temperature(message: calibration_pb2.TemperatureScalingCalibration) -> Calibration:
    return Calibration(function=Temperature(scaler=message.scaler), on_logits=True)


CALIBRATIONS: dict[str, Callable[[Any], Calibration]] = {
    "class_id_function_approximations": _per_class,
    "function_approximation": _function,
    "temperature_scaling_calibration": _temperature,
}


def build_calibration(message: calibration_pb2.CalibrationConfig) -> Calibration:
    """Build the calibration of a checked message."""
    return build_oneof(message, "calibrator", CALIBRATIONS)


SCORE_ACTIVATIONS: dict[int, Elementwise] = {
    post_processing_pb2.PostProcessing.IDENTITY: tf.identity,
    post_processing_pb2.PostProcessing.SIGMOID: tf.sigmoid,
    post_processing_pb2.PostProcessing.SOFTMAX: tf.nn.softmax,
}


def build_post_processing(message: post_processing_pb2.PostProcessing) -> PostProcessing:
    """Build the conversion of raw predictions to detections from a checked message."""
    return PostProcessing(
        score_converter=build_score_converter(message),
        nms=build_nms_options(message.batch_non_max_suppression),
    )


def build_score_converter(message: post_processing_pb2.PostProcessing) -> ScoreConverter:
    """Build the conversion of class logits to scores, calibration included."""
    converter = ScoreConverter(
        activation=SCORE_ACTIVATIONS[message.score_converter], logit_scale=message.logit_scale
    )
    if not message.HasField("calibration_config"):
        return converter
    calibration = build_calibration(message.calibration_config)
    return ScoreConverter(
        activation=converter.activation,
        logit_scale=converter.logit_scale,
        prepare=calibration.function if calibration.on_logits else None,
        calibrate=None if calibration.on_logits else calibration.function,
    )


# These only select a TPU or CPU kernel and do not change detections: use_static_shapes,
# use_partitioned_nms, use_cpu_nms and use_combined_nms. Every hard suppression here uses the combined kernel.
def build_nms_options(message: post_processing_pb2.BatchNonMaxSuppression) -> NmsOptions:
    """Build the options of non-max suppression."""
    return from_fields(
        NmsOptions,
        message,
        class_agnostic=message.use_class_agnostic_nms,
        soft_nms_sigma=0.0 if message.use_hard_nms else message.soft_nms_sigma,
    )
