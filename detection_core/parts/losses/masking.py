"""Keeping parts of a prediction out of a loss."""

from __future__ import annotations

import tensorflow as tf


def replace_nan_targets(prediction: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Put the prediction where the target is not a number, so that the loss is 0 there.

    A keypoint that is not known of an object cannot be predicted wrong.

    Args:
        prediction: float32 [...].
        target: float32 [...].

    Returns:
        float32 [...], the target without NaN.
    """
    return tf.where(tf.math.is_nan(target), prediction, target)
