"""Overlap of two maps, for segmentation."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

# Maps with less than one pixel in them are compared as if they had one, so that empty maps cost 1.
SMALLEST_TOTAL = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class DiceLoss:
    """One minus the Dice coefficient of predicted and true map, class by class.

    V-Net, https://arxiv.org/abs/1606.04797.

    Attributes:
        squared_normalization: whether predicted and true map are squared first.
    """

    squared_normalization: bool

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every class over all pixels, float32 [B, K]; see `ClassificationLoss`."""
        probability = tf.sigmoid(prediction)
        if self.squared_normalization:
            probability, target = tf.square(probability), tf.square(target)
        probability, target = probability * weights, target * weights
        shared = 2.0 * tf.reduce_sum(probability * target, axis=1)
        total = tf.reduce_sum(probability + target, axis=1)
        return 1.0 - shared / tf.maximum(total, SMALLEST_TOTAL)
