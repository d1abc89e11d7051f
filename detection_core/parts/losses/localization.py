"""Localisation losses: of box codes (smooth L1, L1, L2) and of decoded boxes (IoU, GIoU)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import tensorflow as tf

from detection_core.ops import iou as iou_ops


@dataclasses.dataclass(frozen=True, kw_only=True)
class SmoothL1Loss:
    """Squared error near zero and linear beyond, summed over the code.

    Fast R-CNN, https://arxiv.org/abs/1504.08083.

    Attributes:
        delta: distance at which the linear part begins, and its slope.
    """

    compares_boxes: ClassVar[bool] = False

    delta: float

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `LocalizationLoss`."""
        distance = tf.abs(prediction - target)
        near = tf.minimum(distance, self.delta)
        loss = 0.5 * tf.square(near) + self.delta * (distance - near)
        return tf.reduce_sum(loss, axis=-1) * weights


@dataclasses.dataclass(frozen=True)
class L2Loss:
    """Half the squared error, summed over the code; the weight is applied before squaring."""

    compares_boxes: ClassVar[bool] = False

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `LocalizationLoss`."""
        difference = (prediction - target) * weights[..., tf.newaxis]
        return 0.5 * tf.reduce_sum(tf.square(difference), axis=-1)


@dataclasses.dataclass(frozen=True)
class L1Loss:
    """Absolute error, summed over the code."""

    compares_boxes: ClassVar[bool] = False

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `LocalizationLoss`."""
        return tf.reduce_sum(self.elementwise(prediction, target, weights[..., tf.newaxis]), axis=-1)

    def elementwise(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every number of the code.

        Args:
            prediction: float32 [..., K].
            target: float32 [..., K].
            weights: float32, broadcastable to [..., K].

        Returns:
            float32 [..., K].
        """
        return tf.abs(prediction - target) * weights


@dataclasses.dataclass(frozen=True)
class IouLoss:
    """One minus the IoU, whose gradient is zero for boxes that do not overlap.

    UnitBox, https://arxiv.org/abs/1608.01471, uses its negative logarithm instead.
    """

    compares_boxes: ClassVar[bool] = True

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `LocalizationLoss`."""
        return (1.0 - iou_ops.matched_iou(prediction, target)) * weights


@dataclasses.dataclass(frozen=True)
class GiouLoss:
    """One minus the generalised IoU, which has a gradient also for boxes that do not overlap.

    Generalized Intersection over Union, https://arxiv.org/abs/1902.09630.
    """

    compares_boxes: ClassVar[bool] = True

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `LocalizationLoss`."""
        return (1.0 - iou_ops.matched_giou(prediction, target)) * weights
