"""Suppression and calibration of scores, and names at the output of TensorFlow Lite detectors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from detection_core.allowed_values import BOXES, NOT_NEGATIVE, Range
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.calibration_pb2 import ClassIdFunctionApproximations, XYPairs
from detection_core.protos.post_processing_pb2 import BatchNonMaxSuppression


def _suppression(nms: BatchNonMaxSuppression, path: str) -> Iterator[Problem]:
    if nms.max_detections_per_class > nms.max_total_detections:
        total, found = nms.max_total_detections, nms.max_detections_per_class
        text = f"expected at most max_total_detections, which is {total:,}, found {found:,}"
        yield Problem(path=f"{path}.max_detections_per_class", message=text)
    for name in ("use_class_agnostic_nms", "soft_nms_sigma"):
        if nms.use_combined_nms and getattr(nms, name):
            yield Problem(path=f"{path}.{name}", message="expected none beside use_combined_nms; remove one")
    if nms.use_class_agnostic_nms and nms.max_classes_per_detection > 1:
        text = (
            "expected 1 beside use_class_agnostic_nms, which gives an anchor one class only, found"
            f" {nms.max_classes_per_detection:,}"
        )
        yield Problem(path=f"{path}.max_classes_per_detection", message=text)


def _knots(message: XYPairs, path: str) -> Iterator[Problem]:
    if not message.x_y_pair:
        text = "expected at least one x_y_pair, found none; add the points of the calibration curve"
        yield Problem(path=path, message=text)


def _per_class(message: ClassIdFunctionApproximations, path: str) -> Iterator[Problem]:
    """Check the values of a map, which the walk over messages does not reach."""
    for key, pairs in message.class_id_xy_pairs_map.items():
        where = f"{path}.class_id_xy_pairs_map[{key}]"
        yield from _knots(pairs, where)
        if key < 0:
            yield Problem(path=where, message=f"expected a class of 0 or more, found {key}; correct it")


_KERNEL = "it chose a kernel for an accelerator; the result is the same with and without"
_SIGMOID = (
    "the schema names it, but the Object Detection API never applied it, so its meaning is open; "
    "use {}, with points of the sigmoid"
)

RULES: Mapping[str, Rules] = {
    "BatchNonMaxSuppression": Rules(
        ranges={
            "max_detections_per_class": BOXES,
            "max_total_detections": BOXES,
            "max_classes_per_detection": BOXES,
            "score_threshold": NOT_NEGATIVE,
            "soft_nms_sigma": NOT_NEGATIVE,
        },
        check=_suppression,
        without_effect={"use_static_shapes": _KERNEL, "use_partitioned_nms": _KERNEL, "use_cpu_nms": _KERNEL},
    ),
    "CalibrationConfig": Rules(
        oneofs=("calibrator",),
        refused={
            "sigmoid_calibration": _SIGMOID.format("function_approximation"),
            "class_id_sigmoid_calibrations": _SIGMOID.format("class_id_function_approximations"),
        },
    ),
    "FunctionApproximation": Rules(parts=("x_y_pairs",)),
    "ClassIdFunctionApproximations": Rules(check=_per_class),
    "TemperatureScalingCalibration": Rules(
        ranges={
            "scaler": Range(0, math.inf, "a number above 0, of which 1 leaves logits alone", open_low=True)
        }
    ),
    "XYPairs": Rules(
        check=_knots, without_effect={"training_data_type": "it only tells where the points came from"}
    ),
}


CLIP_RANGE = "box_encodings_clip_range"
"""A field of the prediction head; a TensorFlow Lite file does not clip codes."""
OPERATION = "TFLite_Detection_PostProcess"
"""The custom operator that decodes boxes and applies non-maximum suppression."""
