"""PostProcessing messages to score conversion and suppression."""

from __future__ import annotations

import tensorflow as tf

from detection_core.builders.calibration import build_calibration
from detection_core.ops.nms import NmsOptions
from detection_core.ops.post_processing import Elementwise, PostProcessing, ScoreConverter
from detection_core.protos import post_processing_pb2

SCORE_ACTIVATIONS: dict[int, Elementwise] = {
    post_processing_pb2.PostProcessing.IDENTITY: tf.identity,
    post_processing_pb2.PostProcessing.SIGMOID: tf.sigmoid,
    post_processing_pb2.PostProcessing.SOFTMAX: tf.nn.softmax,
}


def build_post_processing(message: post_processing_pb2.PostProcessing) -> PostProcessing:
    """Build what makes detections of raw predictions, as a checked message describes it."""
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


# These chose a kernel for a TPU or CPU; detections do not depend on them:
# use_static_shapes, use_partitioned_nms, use_cpu_nms, and use_combined_nms, whose kernel serves every
# hard suppression here.
def build_nms_options(message: post_processing_pb2.BatchNonMaxSuppression) -> NmsOptions:
    """Build the options of suppression."""
    return NmsOptions(
        score_threshold=message.score_threshold,
        iou_threshold=message.iou_threshold,
        max_detections_per_class=message.max_detections_per_class,
        max_total_detections=message.max_total_detections,
        class_agnostic=message.use_class_agnostic_nms,
        soft_nms_sigma=0.0 if message.use_hard_nms else message.soft_nms_sigma,
        change_coordinate_frame=message.change_coordinate_frame,
    )
