import numpy as np

from detection_core.detectors.parts.losses.dice import DiceLoss
from tests.support.cases import cases


@cases(False, True)
def test_perfect_and_opposite_maps(*, squared):
    target = np.float32([[[1], [1], [0]], [[0], [1], [1]]])
    loss = DiceLoss(squared_normalization=squared)
    ones = np.ones((2, 3, 1), np.float32)
    np.testing.assert_allclose(loss(200 * target - 100, target, ones), np.zeros((2, 1)), atol=1e-6)
    np.testing.assert_allclose(loss(100 - 200 * target, target, ones), np.ones((2, 1)), atol=1e-6)


def test_by_hand():
    prediction, target = np.zeros((1, 4, 1), np.float32), np.float32([[[1], [1], [0], [0]]])
    found = DiceLoss(squared_normalization=False)(prediction, target, np.ones((1, 4, 1), np.float32))
    np.testing.assert_allclose(found, [[1 - 2 * 1.0 / (2.0 + 2.0)]], rtol=1e-6)
