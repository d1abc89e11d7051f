"""Making and choosing the objects of an image."""

from __future__ import annotations

import tensorflow as tf

from detection_core.structures import GroundTruth

# What a field holds for each object where it is not given: its trailing dimensions, type and value.
_NOT_GIVEN: dict[str, tuple[tuple[int, ...], tf.DType, float]] = {
    "weights": ((), tf.float32, 1),
    "is_crowd": ((), tf.bool, 0),
    "area": ((), tf.float32, 0),
    "valid": ((), tf.bool, 1),
    "masks": ((0, 0), tf.uint8, 0),
    "class_scores": ((0,), tf.float32, 0),
    "confidences": ((), tf.float32, 1),
    "keypoints": ((0, 2), tf.float32, 0),
    "keypoint_weights": ((0,), tf.float32, 0),
}


def new_truth(boxes: tf.Tensor, classes: tf.Tensor, **fields: tf.Tensor) -> GroundTruth:
    """Make ground truth of what is known of the objects.

    Args:
        boxes: float32 [..., G, 4].
        classes: int32 [..., G].
        fields: others of `GroundTruth`. What is not given says nothing: weights and confidences are 1, all
            rows are valid, flags False, areas 0, and what need not be used has size zero.
    """
    rows = tf.shape(boxes)[:-1]

    def filled(trailing: tuple[int, ...], dtype: tf.DType, value: float) -> tf.Tensor:
        values = tf.fill(tf.concat([rows, tf.constant(trailing, tf.int32)], 0), tf.cast(value, dtype))
        return tf.ensure_shape(values, [*boxes.shape[:-1], *trailing])

    missing = {name: filled(*told) for name, told in _NOT_GIVEN.items() if name not in fields}
    return GroundTruth(boxes=boxes, classes=classes, **missing, **fields)


def keep_objects(truth: GroundTruth, keep: tf.Tensor) -> GroundTruth:
    """Keep some of the objects, all fields in step.

    Args:
        truth: unbatched.
        keep: bool [G], or whole numbers [K]: rows in the wanted order.
    """
    rows = tf.where(keep)[:, 0] if keep.dtype == tf.bool else keep
    return GroundTruth(*[tf.gather(field, rows) for field in truth])
