"""Suppression and calibration of scores."""

from __future__ import annotations

from collections.abc import Iterator

from detection_core.config.problems import Problem
from detection_core.protos.calibration_pb2 import CalibrationConfig
from detection_core.protos.post_processing_pb2 import BatchNonMaxSuppression, PostProcessing


def post_processing_problems(message: PostProcessing, path: str) -> Iterator[Problem]:
    """Find suppression and calibration that contradict themselves.

    Args:
        message: the message.
        path: its field path.
    """
    yield from suppression_problems(message.batch_non_max_suppression, f"{path}.batch_non_max_suppression")
    if message.HasField("calibration_config"):
        yield from _calibration(message.calibration_config, f"{path}.calibration_config")


def suppression_problems(nms: BatchNonMaxSuppression, path: str) -> Iterator[Problem]:
    """Find suppression that contradicts itself.

    Args:
        nms: the message.
        path: its field path.
    """
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


def _calibration(message: CalibrationConfig, path: str) -> Iterator[Problem]:
    arm = message.WhichOneof("calibrator")
    if arm is None:
        arms = "function_approximation, class_id_function_approximations, temperature_scaling_calibration"
        yield Problem(path=path, message=f"expected one of {arms}, found none; add the one you want")
    if arm == "function_approximation":
        points = message.function_approximation.x_y_pairs.x_y_pair
        yield from _points(len(points), f"{path}.{arm}.x_y_pairs")
    if arm == "class_id_function_approximations":
        place = f"{path}.{arm}.class_id_xy_pairs_map"
        for key, pairs in message.class_id_function_approximations.class_id_xy_pairs_map.items():
            yield from _points(len(pairs.x_y_pair), f"{place}[{key}]")
            if key < 0:
                yield Problem(path=f"{place}[{key}]", message="expected a class of 0 or more")
    if arm == "temperature_scaling_calibration" and not message.temperature_scaling_calibration.scaler > 0:
        found = message.temperature_scaling_calibration.scaler
        text = f"expected a number above 0, found {found:g}; 1 leaves logits alone"
        yield Problem(path=f"{path}.{arm}.scaler", message=text)


def _points(count: int, path: str) -> Iterator[Problem]:
    if not count:
        text = "expected at least one x_y_pair, found none; add the points of the calibration curve"
        yield Problem(path=path, message=text)
