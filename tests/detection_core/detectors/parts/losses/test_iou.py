import numpy as np
import tensorflow as tf

from detection_core.detectors.parts.losses.iou import GiouLoss, IouLoss

SAME = np.float32([[[0.1, 0.1, 0.5, 0.5]]])
HALF = np.float32([[[0.1, 0.1, 0.5, 0.3]]])
AWAY = np.float32([[[0.7, 0.7, 0.9, 0.9]]])
WEIGHT = np.float32([[2.0]])


def test_by_hand():
    for loss in (IouLoss(), GiouLoss()):
        assert loss.compares_boxes
        np.testing.assert_allclose(loss(SAME, SAME, WEIGHT), [[0.0]], atol=1e-6)
        np.testing.assert_allclose(loss(HALF, SAME, WEIGHT), [[1.0]], rtol=1e-5)
    np.testing.assert_allclose(IouLoss()(AWAY, SAME, WEIGHT), [[2.0]], rtol=1e-6)
    enclosing, union = 0.64, 0.16 + 0.04
    np.testing.assert_allclose(
        GiouLoss()(AWAY, SAME, WEIGHT), [[2 * (1 + (enclosing - union) / enclosing)]], rtol=1e-5
    )


def test_only_giou_pulls_boxes_that_do_not_touch():
    boxes = tf.Variable(AWAY)
    for loss, pulls in ((IouLoss(), False), (GiouLoss(), True)):
        with tf.GradientTape() as tape:
            value = loss(boxes, SAME, WEIGHT)
        assert bool(np.any(tape.gradient(value, boxes).numpy())) is pulls
