import copy

import pytest

from detection_core import ConfigError
from detflow.object_detector import EfficientDetLite0Spec, EfficientDetSpec
from tests.support.refusals import not_refused


def test_the_defaults_are_model_maker_s_and_hyper_parameters_are_attributes():
    # https://www.tensorflow.org/lite/api_docs/python/tflite_model_maker/object_detector/EfficientDetLite0Spec
    spec = EfficientDetLite0Spec()
    assert spec.model_name == "efficientdet-lite0"
    assert spec.uri == "https://tfhub.dev/tensorflow/efficientdet/lite0/feature-vector/1"
    assert (spec.epochs, spec.batch_size) == (50, 64)
    assert spec.config.var_freeze_expr == "(efficientnet|fpn_cells|resample_p6)"
    assert spec.config.tflite_max_detections == 25 and spec.config.moving_average_decay == 0

    spec = EfficientDetSpec("efficientdet-d0", hparams={"nms_configs": {"method": "hard"}})
    spec.config.max_instances_per_image = 300
    spec.config.override("nms_configs.iou_thresh=0.4,learning_rate=0.01")
    assert spec.config.max_instances_per_image == 300
    assert spec.config.as_dict()["learning_rate"] == 0.01
    assert (spec.config.nms_configs.method, spec.config.nms_configs.iou_thresh) == ("hard", 0.4)
    assert copy.deepcopy(spec).config.max_instances_per_image == 300
    with pytest.raises(AttributeError, match="no_such_one"):
        spec.config.no_such_one  # noqa: B018


def test_what_cannot_be_used_is_named_and_a_setting_is_checked_when_it_is_set(caplog):
    cases = [
        ({"model_name": "efficientdet-d9"}, "^model"),
        ({"hparams": "learning_rat=1"}, "^hparams"),
        ({"tpu": "grpc://10.0.0.1"}, "^tpu: "),
        ({"gcp_project": "mine"}, "^gcp_project: "),
        ({"epochs": 0}, "^epochs: "),
        ({"batch_size": 2.5}, "^batch_size: "),
        ({"tflite_max_detections": 0}, "^tflite_max_detections: "),
    ]
    base = {"model_name": "efficientdet-lite0"}
    assert not not_refused(lambda given: EfficientDetSpec(**{**base, **given}), cases, ConfigError)
    spec = EfficientDetLite0Spec()
    with pytest.raises(ConfigError, match="did you mean learning_rate"):
        spec.config.learning_rat = 1
    with pytest.raises(ConfigError, match="momentum"):
        spec.config.momentum = 7
    assert spec.config.momentum == 0.9
    EfficientDetLite0Spec(use_xla=True, steps_per_execution=4)
    assert "without effect: use_xla, steps_per_execution" in caplog.text
