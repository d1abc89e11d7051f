import numpy as np

from detection_core.detectors.parts.losses.sigmoid import BootstrappedSigmoidLoss, SigmoidLoss
from tests.support.cases import cases


def _arrays():
    rng = np.random.default_rng(0)
    prediction, target = rng.normal(0, 3, (2, 4, 3)), rng.uniform(0, 1, (2, 4, 3))
    return [array.astype(np.float32) for array in (prediction, target, rng.uniform(0, 1, (2, 4, 1)))]


def _cross_entropy(prediction, target):
    p = 1 / (1 + np.exp(-prediction.astype(np.float64)))
    return -target * np.log(p) - (1 - target) * np.log(1 - p)


def test_equals_the_formula():
    prediction, target, weights = _arrays()
    expected = _cross_entropy(prediction, target) * weights
    np.testing.assert_allclose(SigmoidLoss()(prediction, target, weights), expected, rtol=1e-4, atol=1e-6)


@cases(False, True)
def test_bootstrapped_equals_the_formula(*, hard):
    prediction, target, weights = _arrays()
    p = 1 / (1 + np.exp(-prediction))
    mixed = 0.3 * target + 0.7 * (p > 0.5 if hard else p)
    loss = BootstrappedSigmoidLoss(alpha=0.3, hard_bootstrap=hard)
    expected = _cross_entropy(prediction, mixed) * weights
    np.testing.assert_allclose(loss(prediction, target, weights), expected, rtol=1e-4, atol=1e-5)


def test_full_trust_is_plain_cross_entropy():
    arrays = _arrays()
    loss = BootstrappedSigmoidLoss(alpha=1.0, hard_bootstrap=False)
    np.testing.assert_allclose(loss(*arrays), SigmoidLoss()(*arrays), rtol=1e-5)
