import math

import numpy as np

from detection_core.detectors.parts.box_coders.square import SquareBoxCoder
from tests.support.batches import random_boxes
from tests.support.golden_cases import load_cases

CODER = SquareBoxCoder(y_scale=10.0, x_scale=10.0, length_scale=5.0)


def test_by_hand():
    boxes, anchors = np.float32([[0.2, 0.2, 0.6, 0.3]]), np.float32([[0.0, 0.0, 0.4, 0.4]])
    np.testing.assert_allclose(CODER.encode(boxes, anchors), [[5, 1.25, -5 * math.log(2)]], atol=1e-5)


def test_squares_come_back():
    rng = np.random.default_rng(0)
    low, anchors = rng.uniform(0, 0.5, (3, 5, 2)), random_boxes(rng, 5)
    squares = np.concatenate([low, low + rng.uniform(0.1, 0.4, (3, 5, 1))], axis=-1).astype(np.float32)
    np.testing.assert_allclose(CODER.decode(CODER.encode(squares, anchors), anchors), squares, atol=1e-5)


def test_without_scales_golden():
    case = load_cases(__file__, "box_coders")["square_no_scale_factors"]
    coder = SquareBoxCoder(y_scale=1.0, x_scale=1.0, length_scale=1.0)
    found = coder.encode(case.inputs["boxes"], case.inputs["anchors"])
    np.testing.assert_allclose(found, case.outputs["encoded"], rtol=1e-5, atol=1e-6)
