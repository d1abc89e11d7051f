import numpy as np
import pytest
from google.protobuf import text_format

from detection_core.builders.box_coders import BOX_CODERS, build_box_coder
from detection_core.errors import ConfigError
from detection_core.protos import box_coder_pb2
from tests.detection_core.detectors.parts.box_coders import test_faster_rcnn
from tests.support.cases import cases
from tests.support.golden_cases import GoldenCase, load_cases

CASES = load_cases(test_faster_rcnn.__file__, "box_coders")
BUILT = [case for case in CASES.values() if case.config]
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


def _build(case: GoldenCase):
    return build_box_coder(text_format.Parse(case.config, box_coder_pb2.BoxCoder()))


@cases(*BUILT)
def test_golden(*, case: GoldenCase):
    coder = _build(case)
    assert coder.code_size == case.params["code_size"]
    keypoints = (case.inputs["keypoints"],) if "keypoints" in case.inputs else ()
    anchors = case.inputs["anchors"]
    encoded = coder.encode(case.inputs["boxes"], anchors, *keypoints)
    np.testing.assert_allclose(encoded, case.outputs["encoded"], **TOLERANCE)
    decoded = coder.decode(case.inputs["codes"], anchors)
    np.testing.assert_allclose(decoded, case.outputs["decoded_codes"], **TOLERANCE)
    if "round_trip" in case.outputs:
        np.testing.assert_allclose(coder.decode(encoded, anchors), case.outputs["round_trip"], **TOLERANCE)
    if keypoints:
        points = coder.decode_keypoints(case.inputs["codes"], anchors)
        np.testing.assert_allclose(points, case.outputs["decoded_keypoints"], **TOLERANCE)


def test_every_arm_has_a_golden():
    assert {case.config.split()[0] for case in BUILT} == set(BOX_CODERS)


def test_empty_message_names_the_arms():
    with pytest.raises(ConfigError, match="faster_rcnn_box_coder"):
        build_box_coder(box_coder_pb2.BoxCoder())


@cases(
    ("faster_rcnn_box_coder { y_scale: 0 }", "y_scale"),
    ("keypoint_box_coder {}", "num_keypoints"),
    ("mean_stddev_box_coder { stddev: -1 }", "stddev"),
    ("square_box_coder { length_scale: 0 }", "length_scale"),
)
def test_scales_must_be_positive(*, text, field):
    with pytest.raises(ConfigError, match=field) as caught:
        build_box_coder(text_format.Parse(text, box_coder_pb2.BoxCoder()), "model.ssd.box_coder")
    assert caught.value.where.startswith("model.ssd.box_coder.")
