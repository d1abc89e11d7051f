"""Geometry of keypoints: float32 [..., K, 2], (y, x) in the frame of boxes, NaN where not in the image."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from detection_core.structures import GroundTruth


def keypoints_in_window(keypoints: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Normalise keypoints to a window [4] that has the same frame as they."""
    return (keypoints - window[:2]) / (window[2:] - window[:2])


def hide_outside(keypoints: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Make NaN what lies outside a window [4]; its border is inside."""
    inside = tf.reduce_all((keypoints >= window[:2]) & (keypoints <= window[2:]), axis=-1, keepdims=True)
    return tf.where(inside, keypoints, math.nan)


def mirror_keypoints(keypoints: tf.Tensor, axis: int) -> tf.Tensor:
    """Mirror normalised keypoints, top and bottom for axis 0, left and right for axis 1."""
    sign = tf.constant([-1.0, 1.0] if axis == 0 else [1.0, -1.0])
    return keypoints * sign + tf.constant([1.0, 0.0] if axis == 0 else [0.0, 1.0])


def turn_keypoints(keypoints: tf.Tensor) -> tf.Tensor:
    """Turn normalised keypoints by 90 degrees counter-clockwise."""
    return tf.stack([1.0 - keypoints[..., 1], keypoints[..., 0]], axis=-1)


def reorder_keypoints(truth: GroundTruth, permutation: Sequence[int]) -> GroundTruth:
    """Let keypoint i become what `permutation[i]` was, as a mirrored left hand is a right one.

    Args:
        truth: unbatched.
        permutation: K numbers; empty: the order stays. It may be given where keypoints are not used.
    """
    if not permutation or truth.keypoints.shape[1] == 0:
        return truth
    return truth._replace(
        keypoints=tf.gather(truth.keypoints, permutation, axis=1),
        keypoint_weights=tf.gather(truth.keypoint_weights, permutation, axis=1),
    )


def with_keypoints(truth: GroundTruth, keypoints: tf.Tensor) -> GroundTruth:
    """Put moved keypoints into the ground truth; those that are NaN now weigh nothing."""
    seen = tf.reduce_all(tf.math.is_finite(keypoints), axis=-1)
    weights = tf.where(seen, truth.keypoint_weights, 0.0)
    return truth._replace(keypoints=keypoints, keypoint_weights=weights)
