import numpy as np
import tensorflow as tf

from detection_core.ops.keypoints import (
    hide_outside,
    keypoints_in_window,
    mirror_keypoints,
    reorder_keypoints,
    turn_keypoints,
    with_keypoints,
)
from detection_core.ops.objects import new_truth
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "keypoints")


def _reordered(keypoints, permutation):
    return tf.gather(keypoints, permutation, axis=1)


OPERATIONS = {
    "kp_prune": lambda points, given: hide_outside(points, tf.constant(given["window"], tf.float32)),
    "kp_frame": lambda points, given: keypoints_in_window(points, tf.constant(given["window"], tf.float32)),
    "kp_flip_h": lambda points, given: _reordered(mirror_keypoints(points, 1), given["permutation"]),
    "kp_flip_v": lambda points, given: _reordered(mirror_keypoints(points, 0), given["permutation"]),
    "kp_rot90": lambda points, given: _reordered(turn_keypoints(points), given["permutation"]),
}


@cases(*list(CASES))
def test_golden(*, name: str) -> None:
    case = CASES[name]
    found = OPERATIONS[name](tf.constant(case.inputs["keypoints"]), case.params)
    np.testing.assert_allclose(found, case.outputs["value"], rtol=1e-5, atol=1e-6)


def _truth():
    keypoints = tf.constant([[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]])
    weights = tf.constant([[1.0, 0.0, 2.0]])
    return new_truth(tf.zeros([1, 4]), tf.zeros([1], tf.int32), keypoints=keypoints, keypoint_weights=weights)


def test_reordering_takes_weights_along() -> None:
    found = reorder_keypoints(_truth(), (2, 0, 1))
    np.testing.assert_allclose(found.keypoints[0, :, 0], [0.5, 0.1, 0.3])
    np.testing.assert_allclose(found.keypoint_weights[0], [2.0, 1.0, 0.0])
    assert reorder_keypoints(_truth(), ()).keypoints.shape == (1, 3, 2)
    without = new_truth(tf.zeros([1, 4]), tf.zeros([1], tf.int32))
    assert reorder_keypoints(without, (2, 0, 1)).keypoints.shape == (1, 0, 2)


def test_what_is_hidden_weighs_nothing() -> None:
    truth = _truth()
    hidden = hide_outside(truth.keypoints, tf.constant([0.0, 0.0, 0.4, 0.4]))
    found = with_keypoints(truth, hidden)
    np.testing.assert_array_equal(found.keypoint_weights, [[1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(np.isnan(found.keypoints[0]).any(axis=1), [False, False, True])
