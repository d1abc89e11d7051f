"""Cross entropy of independent classes, plain and bootstrapped."""

from __future__ import annotations

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class SigmoidLoss:
    """Sigmoid cross entropy of each class on its own."""

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor and class, float32 [B, A, K]; see `ClassificationLoss`."""
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=prediction) * weights


@dataclasses.dataclass(frozen=True, kw_only=True)
class BootstrappedSigmoidLoss:
    """Sigmoid cross entropy against a mixture of the target and the model's own prediction.

    Training on noisy labels with bootstrapping, https://arxiv.org/abs/1412.6596.

    Attributes:
        alpha: fraction of the given target, in [0, 1].
        hard_bootstrap: whether the prediction is rounded to 0 or 1.
    """

    alpha: float
    hard_bootstrap: bool

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor and class, float32 [B, A, K]; see `ClassificationLoss`."""
        own = tf.sigmoid(prediction)
        if self.hard_bootstrap:
            own = tf.cast(own > 0.5, prediction.dtype)
        mixed = self.alpha * target + (1.0 - self.alpha) * own
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=mixed, logits=prediction) * weights
