import numpy as np

from detection_core.detectors.parts.losses.softmax import SoftmaxAgainstLogitsLoss, SoftmaxLoss
from tests.support.cases import cases


def _softmax(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _arrays():
    rng = np.random.default_rng(0)
    return [rng.normal(0, 2, shape).astype(np.float32) for shape in ((2, 4, 3), (2, 4, 3), (2, 4, 3))]


@cases(0.5, 1.0, 2.0)
def test_equals_the_formula(*, scale):
    prediction, logits, weights = _arrays()
    target = _softmax(logits)
    expected = -(target * np.log(_softmax(prediction / scale))).sum(-1) * weights.mean(-1)
    found = SoftmaxLoss(logit_scale=scale)(prediction, target, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    target = _softmax(logits / scale)
    expected = -(target * np.log(_softmax(prediction / scale))).sum(-1) * weights.mean(-1)
    found = SoftmaxAgainstLogitsLoss(logit_scale=scale)(prediction, logits, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
