import math

import numpy as np
import pytest

from detection_core.detectors.parts.losses.focal import PenaltyReducedFocalLoss, SigmoidFocalLoss


def _arrays(seed):
    rng = np.random.default_rng(seed)
    prediction = rng.normal(0, 2, (2, 5, 3)).astype(np.float32)
    target = rng.integers(0, 2, (2, 5, 3)).astype(np.float32)
    weights = rng.uniform(0, 1, (2, 5, 1)).astype(np.float32)
    return prediction, target, weights


@pytest.mark.parametrize(("gamma", "alpha"), [(2.0, 0.25), (1.5, 0.5), (0.0, None), (2.0, None)])
def test_focal_equals_a_loop(gamma, alpha):
    prediction, target, weights = _arrays(0)
    expected = np.zeros_like(prediction)
    for index in np.ndindex(prediction.shape):
        p = 1 / (1 + math.exp(-prediction[index]))
        p_true = p if target[index] else 1 - p
        balance = 1.0 if alpha is None else (alpha if target[index] else 1 - alpha)
        expected[index] = -balance * (1 - p_true) ** gamma * math.log(p_true) * weights[index[0], index[1], 0]
    found = SigmoidFocalLoss(gamma=gamma, alpha=alpha)(prediction, target, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_focal_is_finite_for_extreme_logits():
    prediction = np.array([[[1e4, -1e4]]], np.float32)
    found = SigmoidFocalLoss(gamma=2.0, alpha=0.25)(
        prediction, 1 - np.sign(np.maximum(prediction, 0)), np.ones((1, 1, 1), np.float32)
    )
    assert np.all(np.isfinite(found))


def test_penalty_reduced_spares_the_neighbourhood_of_a_peak():
    loss = PenaltyReducedFocalLoss(alpha=2.0, beta=4.0)
    prediction = np.zeros((1, 3, 1), np.float32)
    target = np.array([[[1.0], [0.8], [0.0]]], np.float32)
    peak, near, far = np.ravel(loss(prediction, target, np.ones((1, 3, 1), np.float32)))
    assert peak == pytest.approx(0.25 * math.log(2), rel=1e-5)
    assert near == pytest.approx(0.25 * math.log(2) * 0.2**4, rel=1e-4)
    assert far == pytest.approx(0.25 * math.log(2), rel=1e-5)
