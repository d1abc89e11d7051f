import numpy as np
import tensorflow as tf

from detection_core.data.label_targets import LabelTargets, merge_equal_boxes
from detection_core.ops.objects import new_truth

A, B = [0.1, 0.1, 0.5, 0.5], [0.2, 0.1, 0.5, 0.5]


def _truth(boxes=(A, B, A, A), classes=(2, 0, 1, 2), confidences=(0.5, 1.0, -1.0, 0.25)):
    count = len(boxes)
    fields = {
        "confidences": tf.constant(confidences, tf.float32, [count]), "keypoints": tf.zeros([count, 2, 2]),
        "area": tf.range(count, dtype=tf.float32), "class_scores": tf.fill([count, 3], 0.5),
        "keypoint_weights": tf.constant([[1.0, 0.0]] * count, shape=[count, 2]),
    }  # fmt: skip
    classes = tf.constant(classes, tf.int32, [count])
    return new_truth(tf.constant(boxes, tf.float32, [count, 4]), classes, **fields)


def test_objects_with_one_box_become_one_and_scores_and_keypoints_count_as_they_shall():
    found = merge_equal_boxes(_truth(), 3)
    np.testing.assert_allclose(found.boxes, [A, B])
    np.testing.assert_allclose(found.class_scores, [[0.0, -1.0, 0.5], [1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(found.confidences, [1.0, 1.0])
    np.testing.assert_array_equal(found.area, [0.0, 1.0])
    found = merge_equal_boxes(_truth((), (), ()), 3)
    assert found.class_scores.shape == (0, 3) and found.boxes.shape == (0, 4)
    spec = tf.nest.map_structure(lambda t: tf.TensorSpec([None, *t.shape[1:]], t.dtype), _truth())
    targets = LabelTargets(classes=5, merge_equal_boxes=True)
    traced = tf.function(targets, input_signature=[spec]).get_concrete_function()
    assert traced.structured_outputs.class_scores.shape.as_list() == [None, 5]
    assert LabelTargets(classes=3, use_scores=True)(_truth()).class_scores.shape == (4, 3)
    left = LabelTargets(classes=3)(_truth())
    assert left.class_scores.shape == (4, 0)
    np.testing.assert_array_equal(left.classes, [2, 0, 1, 2])
    found = LabelTargets(classes=3, keypoint_weights=(0.5, 2.0))(_truth())
    np.testing.assert_allclose(found.keypoint_weights, [[0.5, 0.0]] * 4)
