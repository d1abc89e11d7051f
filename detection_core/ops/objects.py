"""Select, join and move objects of GroundTruth, keypoints included."""

import math
from collections.abc import Sequence

import tensorflow as tf

from detection_core.structures import GroundTruth

# Default of each optional field: its trailing dimensions, type and value.
_DEFAULTS: dict[str, tuple[tuple[int, ...], tf.DType, float]] = {
    "weights": ((), tf.float32, 1),
    "class_weights": ((), tf.float32, 1),
    "is_crowd": ((), tf.bool, 0),
    "area": ((), tf.float32, 0),
    "valid": ((), tf.bool, 1),
    "masks": ((0, 0), tf.uint8, 0),
    "class_scores": ((0,), tf.float32, 0),
    "confidences": ((), tf.float32, 1),
    "keypoints": ((0, 2), tf.float32, 0),
    "keypoint_weights": ((0,), tf.float32, 0),
    "keypoint_depths": ((0,), tf.float32, 0),
    "keypoint_depth_weights": ((0,), tf.float32, 0),
}


def new_truth(boxes: tf.Tensor, classes: tf.Tensor, **fields: tf.Tensor) -> GroundTruth:
    """Make ground truth, with defaults for missing fields.

    Args:
        boxes: float32 [..., G, 4].
        classes: int32 [..., G].
        fields: others of `GroundTruth`. Defaults: all weights and confidences are 1, all rows are valid,
            flags are False, areas 0, and optional fields have size zero.
    """
    rows = tf.shape(boxes)[:-1]

    def filled(trailing: tuple[int, ...], dtype: tf.DType, value: float) -> tf.Tensor:
        values = tf.fill(tf.concat([rows, tf.constant(trailing, tf.int32)], 0), dtype.as_numpy_dtype(value))
        return tf.ensure_shape(values, [*boxes.shape[:-1], *trailing])

    missing = {name: filled(*default) for name, default in _DEFAULTS.items() if name not in fields}
    return GroundTruth(boxes=boxes, classes=classes, **missing, **fields)


def keep_objects(truth: GroundTruth, keep: tf.Tensor) -> GroundTruth:
    """Select objects in all fields of unbatched ground truth.

    `keep` is bool [G], or integers [K]: rows in their new order.
    """
    rows = tf.where(keep)[:, 0] if keep.dtype == tf.bool else keep
    return GroundTruth(*[tf.gather(field, rows) for field in truth])


def end_at_last_pixel(truth: GroundTruth, size: tf.Tensor) -> GroundTruth:
    """Clip unbatched normalised boxes to one pixel less than the frame, and drop those without area.

    google/automl's EfficientDet reads ground truth in this way, in training and in evaluation. `size` is
    float32 [2], rows and columns of the frame.
    """
    boxes = tf.clip_by_value(truth.boxes, 0.0, tf.tile((size - 1.0) / size, [2]))
    truth = truth._replace(boxes=boxes)
    return keep_objects(truth, tf.reduce_prod(boxes[:, 2:] - boxes[:, :2], axis=1) != 0.0)


def keypoints_in_window(keypoints: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Normalise keypoints to a window [4] in the same frame."""
    return (keypoints - window[:2]) / (window[2:] - window[:2])


def hide_outside(keypoints: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Set keypoints outside a window [4] to NaN; its border is inside."""
    inside = tf.reduce_all((keypoints >= window[:2]) & (keypoints <= window[2:]), axis=-1, keepdims=True)
    return tf.where(inside, keypoints, math.nan)


def mirror_keypoints(keypoints: tf.Tensor, axis: int) -> tf.Tensor:
    """Mirror normalised keypoints, top and bottom for axis 0, left and right for axis 1."""
    sign = tf.constant([-1.0, 1.0] if axis == 0 else [1.0, -1.0])
    return keypoints * sign + tf.constant([1.0, 0.0] if axis == 0 else [0.0, 1.0])


def turn_keypoints(keypoints: tf.Tensor) -> tf.Tensor:
    """Rotate normalised keypoints by 90 degrees counter-clockwise."""
    return tf.stack([1.0 - keypoints[..., 1], keypoints[..., 0]], axis=-1)


def reorder_keypoints(truth: GroundTruth, permutation: Sequence[int]) -> GroundTruth:
    """Replace keypoint i by keypoint `permutation[i]`, because a mirrored left hand is a right hand.

    An empty permutation keeps the order. It is ignored if there are no keypoints.
    """
    if not permutation or truth.keypoints.shape[1] == 0:
        return truth
    names = ["keypoints", "keypoint_weights"]
    if truth.keypoint_depths.shape[1] != 0:
        names += ["keypoint_depths", "keypoint_depth_weights"]
    return truth._replace(**{name: tf.gather(getattr(truth, name), permutation, axis=1) for name in names})


def with_keypoints(truth: GroundTruth, keypoints: tf.Tensor) -> GroundTruth:
    """Replace the keypoints; those that are now NaN get weight 0."""
    seen = tf.reduce_all(tf.math.is_finite(keypoints), axis=-1)
    weights = tf.where(seen, truth.keypoint_weights, 0.0)
    return truth._replace(keypoints=keypoints, keypoint_weights=weights)
