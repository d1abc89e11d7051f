import pytest

from detection_core.detectors.base import DetectionModel


def test_a_detector_must_have_every_verb():
    verbs = {"preprocess", "predict", "losses", "detect_with_anchors", "raw_detections", "with_network"}
    assert DetectionModel.__abstractmethods__ == verbs
    with pytest.raises(TypeError, match="abstract"):
        DetectionModel()
