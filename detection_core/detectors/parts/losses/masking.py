"""What keeps parts of a prediction out of a loss."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def replace_nan_targets(prediction: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Put the prediction where the target is not a number, so that it costs nothing there.

    Args:
        prediction: float32 [...].
        target: float32 [...].

    Returns:
        float32 [...], the target without NaN.
    """
    return tf.where(tf.math.is_nan(target), prediction, target)


def only_classes(weights: tf.Tensor, classes: Sequence[int], columns: int) -> tf.Tensor:
    """Keep the weight of some columns and set that of the others to 0.

    Args:
        weights: float32 [B, A, 1] or [B, A, K].
        classes: columns that count.
        columns: K.

    Returns:
        float32 [B, A, K].
    """
    return weights * tf.reduce_sum(tf.one_hot(list(classes), columns), axis=0)


def only_images(weights: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
    """Set the weights of images that do not count to 0.

    Args:
        weights: float32 [B, ...].
        kept: bool [B].

    Returns:
        float32 [B, ...].
    """
    ones = tf.ones([tf.rank(weights) - 1], tf.int32)
    return tf.where(tf.reshape(kept, tf.concat([tf.shape(kept), ones], axis=0)), weights, 0.0)
