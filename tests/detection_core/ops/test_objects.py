import numpy as np
import tensorflow as tf

from detection_core.ops.objects import keep_objects, new_truth

TRUTH = new_truth(
    boxes=tf.reshape(tf.range(12.0), [3, 4]),
    classes=tf.constant([5, 6, 7]),
    weights=tf.constant([0.5, 0.6, 0.7]),
    is_crowd=tf.constant([True, False, True]),
    area=tf.constant([50.0, 60.0, 70.0]),
    valid=tf.constant([True, True, False]),
    masks=tf.reshape(tf.cast(tf.range(6), tf.uint8), [3, 1, 2]),
)


def test_all_fields_are_kept_in_step() -> None:
    for keep, rows in (
        (tf.constant([True, False, True]), [0, 2]),
        (tf.constant([2, 0, 0]), [2, 0, 0]),
        (tf.constant([False] * 3), []),
    ):
        for before, after in zip(TRUTH, keep_objects(TRUTH, keep), strict=True):
            np.testing.assert_array_equal(after, np.asarray(before)[rows])


def test_what_is_not_given_says_nothing_and_has_no_size_where_it_need_not() -> None:
    for leading in ((3,), (2, 3)):
        found = new_truth(tf.zeros([*leading, 4]), tf.zeros(leading, tf.int32), area=tf.ones(leading))
        assert all(tuple(field.shape[: len(leading)]) == leading for field in found)
        assert found.masks.shape[-2:] == (0, 0) and found.masks.dtype == tf.uint8
        assert found.class_scores.shape[-1] == found.keypoint_weights.shape[-1] == 0
        assert found.keypoints.shape[-2:] == (0, 2)
        assert np.all(found.weights == 1) and np.all(found.confidences == 1) and np.all(found.area == 1)
        assert np.all(found.valid) and not np.any(found.is_crowd)
    made = tf.function(
        lambda boxes: new_truth(boxes, tf.zeros(tf.shape(boxes)[:1], tf.int32)),
        input_signature=[tf.TensorSpec([None, 4], tf.float32)],
    )
    spec = made.get_concrete_function().structured_outputs
    assert spec.masks.shape[1:] == [0, 0] and spec.keypoints.shape[1:] == [0, 2]
    assert spec.weights.shape.as_list() == [None]
