"""Cross entropy of mutually exclusive classes."""

from __future__ import annotations

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftmaxLoss:
    """Softmax cross entropy over the class axis.

    Attributes:
        logit_scale: the logits are divided by it.
    """

    logit_scale: float

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `ClassificationLoss`.

        Targets are probabilities, and an anchor's weight is the mean of those of its classes.
        """
        logits = prediction / self.logit_scale
        loss = tf.nn.softmax_cross_entropy_with_logits(labels=target, logits=logits)
        return loss * tf.reduce_mean(weights, axis=-1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftmaxAgainstLogitsLoss:
    """Softmax cross entropy against targets that are logits themselves, as from a teacher.

    Knowledge distillation, https://arxiv.org/abs/1503.02531, where `logit_scale` is the temperature.

    Attributes:
        logit_scale: logits of prediction and target are divided by it.
    """

    logit_scale: float

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `ClassificationLoss`.

        Targets are logits, and an anchor's weight is the mean of those of its classes.
        """
        probabilities = tf.nn.softmax(target / self.logit_scale)
        return SoftmaxLoss(logit_scale=self.logit_scale)(prediction, probabilities, weights)
