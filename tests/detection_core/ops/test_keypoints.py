import numpy as np
import tensorflow as tf

from detection_core.ops.objects import (
    hide_outside,
    keypoints_in_window,
    mirror_keypoints,
    new_truth,
    reorder_keypoints,
    turn_keypoints,
    with_keypoints,
)
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "keypoints")


OPERATIONS = {
    "kp_prune": lambda points, given: hide_outside(points, tf.constant(given["window"], tf.float32)),
    "kp_frame": lambda points, given: keypoints_in_window(points, tf.constant(given["window"], tf.float32)),
    "kp_flip_h": lambda points, given: tf.gather(mirror_keypoints(points, 1), given["permutation"], axis=1),
    "kp_flip_v": lambda points, given: tf.gather(mirror_keypoints(points, 0), given["permutation"], axis=1),
    "kp_rot90": lambda points, given: tf.gather(turn_keypoints(points), given["permutation"], axis=1),
}


@cases(*list(CASES))
def test_golden(*, name: str) -> None:
    case = CASES[name]
    found = OPERATIONS[name](tf.constant(case.inputs["keypoints"]), case.params)
    np.testing.assert_allclose(found, case.outputs["value"], rtol=1e-5, atol=1e-6)


def test_reordering_takes_weights_along_and_what_is_hidden_weighs_nothing() -> None:
    without = new_truth(tf.zeros([1, 4]), tf.zeros([1], tf.int32))
    truth = without._replace(
        keypoints=tf.constant([[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]]),
        keypoint_weights=tf.constant([[1.0, 0.0, 2.0]]),
    )
    found = reorder_keypoints(truth, (2, 0, 1))
    np.testing.assert_allclose(found.keypoints[0, :, 0], [0.5, 0.1, 0.3])
    np.testing.assert_allclose(found.keypoint_weights[0], [2.0, 1.0, 0.0])
    assert reorder_keypoints(truth, ()).keypoints.shape == (1, 3, 2)
    assert reorder_keypoints(without, (2, 0, 1)).keypoints.shape == (1, 0, 2)
    found = with_keypoints(truth, hide_outside(truth.keypoints, tf.constant([0.0, 0.0, 0.4, 0.4])))
    np.testing.assert_array_equal(found.keypoint_weights, [[1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(np.isnan(found.keypoints[0]).any(axis=1), [False, False, True])
