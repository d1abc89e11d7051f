"""Box coders by hand-worked numbers, goldens, and decoding as the inverse of encoding."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.parts import box_coders
from tests.support.anchor_parts import FASTER
from tests.support.batches import random_boxes
from tests.support.cases import cases, refused
from tests.support.golden_cases import cases_of

CASES = cases_of("detection_core/parts/box_coders", "box_coders")
UNSCALED = box_coders.FasterRcnnBoxCoder(y_scale=1.0, x_scale=1.0, height_scale=1.0, width_scale=1.0)
KEYPOINTS = box_coders.KeypointBoxCoder(num_keypoints=3, box_coder=FASTER)
MEAN_STDDEV = box_coders.MeanStddevBoxCoder(stddev=0.1)
SQUARE = box_coders.SquareBoxCoder(y_scale=10.0, x_scale=10.0, length_scale=5.0)


@cases(
    (FASTER, [0.2, 0.2, 0.6, 0.4], [0.0, 0.0, 0.4, 0.4], [5.0, 2.5, 0.0, -5 * math.log(2)]),
    (MEAN_STDDEV, [0.2, 0.3, 0.6, 0.5], [0.1, 0.3, 0.5, 0.7], [1, 0, 1, -2]),
    (SQUARE, [0.2, 0.2, 0.6, 0.3], [0.0, 0.0, 0.4, 0.4], [5, 1.25, -5 * math.log(2)]),
)
def test_hand_worked_codes(*, coder, box, anchor, code):
    np.testing.assert_allclose(coder.encode(np.float32([box]), np.float32([anchor])), [code], atol=1e-5)
    assert coder.code_size == len(code)


@cases(
    ("faster_rcnn_no_scale_factors", UNSCALED),
    ("keypoint_no_scale_factors", box_coders.KeypointBoxCoder(num_keypoints=3, box_coder=UNSCALED)),
    ("square_no_scale_factors", box_coders.SquareBoxCoder(y_scale=1.0, x_scale=1.0, length_scale=1.0)),
)
def test_codes_without_scales_are_the_reference_s(*, name, coder):
    case = CASES[name]
    given = [case.inputs[key] for key in ("boxes", "anchors", "keypoints") if key in case.inputs]
    np.testing.assert_allclose(coder.encode(*given), case.outputs["encoded"], rtol=1e-5, atol=1e-6)


def _encode_one(box, anchor):
    height, width = anchor[2] - anchor[0], anchor[3] - anchor[1]
    dy = (box[0] + box[2]) / 2 - (anchor[0] + anchor[2]) / 2
    dx = (box[1] + box[3]) / 2 - (anchor[1] + anchor[3]) / 2
    sides = math.log((box[2] - box[0]) / height), math.log((box[3] - box[1]) / width)
    return [10 * dy / height, 10 * dx / width, 5 * sides[0], 5 * sides[1]]


def test_faster_rcnn_equals_a_loop_and_codes_of_zero_are_the_anchors():
    rng = np.random.default_rng(0)
    boxes, anchors = random_boxes(rng, 3, 7), random_boxes(rng, 7)
    expected = [[_encode_one(box, anchor) for box, anchor in zip(row, anchors, strict=True)] for row in boxes]
    np.testing.assert_allclose(FASTER.encode(boxes, anchors), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(FASTER.decode(np.zeros((2, 7, 4), np.float32), anchors)[1], anchors, atol=1e-6)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_decoding_inverts_encoding(seed):
    rng = np.random.default_rng(seed)
    boxes, anchors = random_boxes(rng, 2, 9), random_boxes(rng, 9)
    for coder in (FASTER, MEAN_STDDEV):
        found = coder.decode(coder.encode(boxes, anchors), anchors)
        np.testing.assert_allclose(found, boxes, atol=2e-6, err_msg=type(coder).__name__)
    low = rng.uniform(0, 0.5, (3, 9, 2))
    squares = np.concatenate([low, low + rng.uniform(0.1, 0.4, (3, 9, 1))], axis=-1).astype(np.float32)
    np.testing.assert_allclose(SQUARE.decode(SQUARE.encode(squares, anchors), anchors), squares, atol=1e-5)
    keypoints = rng.uniform(0, 1, (2, 9, 3, 2)).astype(np.float32)
    codes = KEYPOINTS.encode(boxes, anchors, keypoints)
    assert codes.shape == (2, 9, KEYPOINTS.code_size)
    np.testing.assert_allclose(KEYPOINTS.decode(codes, anchors), boxes, atol=1e-5)
    np.testing.assert_allclose(KEYPOINTS.decode_keypoints(codes, anchors), keypoints, atol=1e-4)


def test_keypoints_are_needed():
    boxes = random_boxes(np.random.default_rng(0), 4)
    refused(ValueError, "keypoints", KEYPOINTS.encode, boxes, boxes)
