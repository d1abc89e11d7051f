import numpy as np

from detection_core.detectors.parts.losses.smooth_l1 import L1Loss, L2Loss, SmoothL1Loss
from tests.support.cases import cases


def _arrays():
    rng = np.random.default_rng(0)
    shapes = ((2, 5, 4), (2, 5, 4), (2, 5))
    return [rng.normal(0, 1, shape).astype(np.float32) for shape in shapes]


@cases(0.5, 1.0, 2.0)
def test_smooth_l1_equals_a_loop(*, delta):
    prediction, target, weights = _arrays()
    expected = np.zeros((2, 5))
    for image, anchor, place in np.ndindex(2, 5, 4):
        distance = abs(float(prediction[image, anchor, place] - target[image, anchor, place]))
        near = distance <= delta
        loss = distance**2 / 2 if near else delta * distance - delta**2 / 2
        expected[image, anchor] += loss * weights[image, anchor]
    found = SmoothL1Loss(delta=delta)(prediction, target, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_l1_and_l2_equal_their_formulas():
    prediction, target, weights = _arrays()
    difference = prediction - target
    np.testing.assert_allclose(
        L1Loss()(prediction, target, weights), np.abs(difference).sum(-1) * weights, rtol=1e-4, atol=1e-6
    )
    # The weight of L2 counts before the square, as it always did.
    expected = 0.5 * (difference**2).sum(-1) * weights**2
    np.testing.assert_allclose(L2Loss()(prediction, target, weights), expected, rtol=1e-4, atol=1e-6)


def test_all_compare_codes():
    assert not any(loss.compares_boxes for loss in (L1Loss(), L2Loss(), SmoothL1Loss(delta=1.0)))
