import numpy as np
import pytest

from detection_core.detectors.parts.box_coders.faster_rcnn import FasterRcnnBoxCoder
from detection_core.detectors.parts.box_coders.keypoint import KeypointBoxCoder
from tests.support.batches import random_boxes
from tests.support.golden_cases import load_cases

CODER = KeypointBoxCoder(
    num_keypoints=3,
    box_coder=FasterRcnnBoxCoder(y_scale=10.0, x_scale=10.0, height_scale=5.0, width_scale=5.0),
)


def test_decoding_inverts_encoding():
    rng = np.random.default_rng(0)
    boxes, anchors = random_boxes(rng, 2, 6), random_boxes(rng, 6)
    keypoints = rng.uniform(0, 1, (2, 6, 3, 2)).astype(np.float32)
    codes = CODER.encode(boxes, anchors, keypoints)
    assert codes.shape == (2, 6, CODER.code_size)
    np.testing.assert_allclose(CODER.decode(codes, anchors), boxes, atol=1e-5)
    np.testing.assert_allclose(CODER.decode_keypoints(codes, anchors), keypoints, atol=1e-5)


def test_without_scales_golden():
    case = load_cases(__file__, "box_coders")["keypoint_no_scale_factors"]
    coder = KeypointBoxCoder(
        num_keypoints=3,
        box_coder=FasterRcnnBoxCoder(y_scale=1.0, x_scale=1.0, height_scale=1.0, width_scale=1.0),
    )
    found = coder.encode(case.inputs["boxes"], case.inputs["anchors"], case.inputs["keypoints"])
    np.testing.assert_allclose(found, case.outputs["encoded"], rtol=1e-5, atol=1e-6)


def test_keypoints_are_needed():
    boxes = random_boxes(np.random.default_rng(0), 4)
    with pytest.raises(ValueError, match="keypoints"):
        CODER.encode(boxes, boxes)
