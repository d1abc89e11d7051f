import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.detectors.parts.box_coders.faster_rcnn import FasterRcnnBoxCoder
from tests.support.batches import random_boxes
from tests.support.golden_cases import load_cases

CODER = FasterRcnnBoxCoder(y_scale=10.0, x_scale=10.0, height_scale=5.0, width_scale=5.0)


def _encode_one(box, anchor):
    height, width = anchor[2] - anchor[0], anchor[3] - anchor[1]
    dy = (box[0] + box[2]) / 2 - (anchor[0] + anchor[2]) / 2
    dx = (box[1] + box[3]) / 2 - (anchor[1] + anchor[3]) / 2
    return [
        10 * dy / height,
        10 * dx / width,
        5 * math.log((box[2] - box[0]) / height),
        5 * math.log((box[3] - box[1]) / width),
    ]


def test_encode_equals_a_loop():
    rng = np.random.default_rng(0)
    boxes, anchors = random_boxes(rng, 3, 7), random_boxes(rng, 7)
    expected = [[_encode_one(box, anchor) for box, anchor in zip(row, anchors, strict=True)] for row in boxes]
    np.testing.assert_allclose(CODER.encode(boxes, anchors), expected, rtol=1e-4, atol=1e-4)


def test_zero_codes_are_the_anchors():
    assert CODER.code_size == 4
    anchors = random_boxes(np.random.default_rng(1), 5)
    np.testing.assert_allclose(CODER.decode(np.zeros((2, 5, 4), np.float32), anchors)[1], anchors, atol=1e-6)


def test_hand_worked_code():
    code = CODER.encode(
        np.array([[0.2, 0.2, 0.6, 0.4]], np.float32), np.array([[0.0, 0.0, 0.4, 0.4]], np.float32)
    )
    np.testing.assert_allclose(code, [[5.0, 2.5, 0.0, -5 * math.log(2)]], atol=1e-5)


def test_without_scales_golden():
    case = load_cases(__file__, "box_coders")["faster_rcnn_no_scale_factors"]
    coder = FasterRcnnBoxCoder(y_scale=1.0, x_scale=1.0, height_scale=1.0, width_scale=1.0)
    encoded = coder.encode(case.inputs["boxes"], case.inputs["anchors"])
    np.testing.assert_allclose(encoded, case.outputs["encoded"], rtol=1e-5, atol=1e-6)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_decode_inverts_encode(seed):
    rng = np.random.default_rng(seed)
    boxes, anchors = random_boxes(rng, 2, 9), random_boxes(rng, 9)
    np.testing.assert_allclose(CODER.decode(CODER.encode(boxes, anchors), anchors), boxes, atol=2e-6)
