import numpy as np
import pytest
from google.protobuf import text_format

from detection_core.builders.detector import build_detector
from detection_core.detectors.efficientdet.build import build_efficientdet, suppression_options
from detection_core.errors import ConfigError
from detection_core.protos.efficientdet_pb2 import EfficientDet
from detection_core.protos.model_pb2 import DetectionModel
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases

SMALL = {"fpn_cell_repeats": 1, "box_class_repeats": 1, "fpn_num_filters": 8, "max_level": 6}


def test_a_config_names_a_model_and_its_classes():
    text = 'efficientdet { name: "efficientdet-lite0" num_classes: 2 fpn_cell_repeats: 1 }'
    detector = build_detector(text_format.Parse(text, DetectionModel()), seed=None)
    assert detector.input_shape.size == (320, 320)
    assert detector.anchors.shape == (19206, 4)
    assert detector.num_classes == 2


def test_an_unknown_model_is_refused():
    text = 'efficientdet { name: "efficientdet-d9" num_classes: 2 }'
    with pytest.raises(ConfigError, match=r"efficientdet-d7x.*'efficientdet-d9'"):
        build_detector(text_format.Parse(text, DetectionModel()))


def test_frozen_variables_are_neither_trained_nor_decayed():
    message = goldens.message("efficientdet-lite0", 64, var_freeze_expr="(efficientnet|fpn_cells)", **SMALL)
    detector = build_efficientdet(message, "model.efficientdet", None)
    names = {variable.name for variable in detector.trainable_variables}
    assert names and all(name.startswith(("class_", "box_", "bifpn_coarse")) for name in names)
    decayed = detector.parts.regularizers
    assert "class_head_pointwise/kernel" in decayed
    assert "box_tower_0_depthwise/depthwise_kernel" in decayed
    assert not any(key.startswith(("backbone", "bifpn_0")) or key.endswith("bias") for key in decayed)


def test_first_weights_depend_on_the_seed_and_classes_start_rare():
    message = goldens.message("efficientdet-lite0", 64, **SMALL)
    first, same, other = (build_efficientdet(message, "", seed).network.get_weights() for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, same, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    head = build_efficientdet(message, "", 1).network.get_layer("class_head_pointwise")
    np.testing.assert_allclose(1 / (1 + np.exp(-head.bias.numpy())), 0.01, rtol=1e-4)


@cases(
    ({}, (True, 0.001, 0.5)),
    ({"method": "hard"}, (False, -float("inf"), 0.5)),
    ({"method": "hard", "iou_thresh": 0.3, "score_thresh": 0.2}, (False, 0.2, 0.3)),
)
def test_numbers_of_suppression_that_are_not_set_are_the_reference_s(*, fields, expected):
    found = suppression_options(EfficientDet.NonMaxSuppression(**fields))
    assert (found.soft, found.score_threshold, found.iou_threshold) == pytest.approx(expected)
    assert (found.mode, found.max_detections, found.max_inputs) == ("global", 100, 0)
