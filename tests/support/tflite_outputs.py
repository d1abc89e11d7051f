"""What a TensorFlow Lite file is to give, for tests that care for a part of it."""

from detection_core.detectors.family import TFLiteOutputOptions


def outputs(max_detections: int, **changed) -> TFLiteOutputOptions:
    options = {"classes_per_detection": 1, "use_regular_nms": False, **changed}
    return TFLiteOutputOptions(max_detections=max_detections, **options)
