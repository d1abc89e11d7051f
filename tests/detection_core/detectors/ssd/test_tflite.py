"""What a TensorFlow Lite file of a one-stage detector is made with, which the exporters' tests run."""

import pytest

from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.ssd.tflite import input_normalisation, post_process_options
from detection_core.errors import ExportError
from tests.support.tflite_outputs import outputs
from tests.support.tiny_detector import TinyDetector

CONFIG = """model { ssd {
  num_classes: 90
  box_coder { faster_rcnn_box_coder { y_scale: 10 x_scale: 10 height_scale: 5 width_scale: 5 } }
  post_processing { batch_non_max_suppression { score_threshold: 1e-8 iou_threshold: 0.6 } }
} }"""


def test_another_box_coder_is_refused():
    text = CONFIG.replace("faster_rcnn_box_coder", "mean_stddev_box_coder")
    text = text.replace("y_scale: 10 x_scale: 10 height_scale: 5 width_scale: 5", "")
    with pytest.raises(ExportError, match=r"model.ssd.box_coder: expected faster_rcnn_box_coder"):
        post_process_options(parse_pipeline_config(text), outputs(max_detections=10))


def test_an_explicit_background_is_not_among_the_classes():
    text = CONFIG.replace("num_classes: 90", "num_classes: 91 explicit_background_class: true")
    assert post_process_options(parse_pipeline_config(text), outputs(max_detections=10)).num_classes == 90


def test_normalisation_is_read_from_the_model():
    mean, std = input_normalisation(TinyDetector())
    assert mean == pytest.approx((127.5,) * 3) and std == pytest.approx((127.5,) * 3)
