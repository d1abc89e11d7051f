"""Losses on the overlap of decoded boxes."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import tensorflow as tf

from detection_core.ops import iou as iou_ops


@dataclasses.dataclass(frozen=True)
class IouLoss:
    """One minus the IoU, whose gradient is zero where the boxes do not touch.

    UnitBox, https://arxiv.org/abs/1608.01471, takes its negative logarithm instead.
    """

    compares_boxes: ClassVar[bool] = True

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `LocalizationLoss`."""
        return (1.0 - iou_ops.matched_iou(prediction, target)) * weights


@dataclasses.dataclass(frozen=True)
class GiouLoss:
    """One minus the generalised IoU, which still pulls boxes that do not touch.

    Generalized Intersection over Union, https://arxiv.org/abs/1902.09630.
    """

    compares_boxes: ClassVar[bool] = True

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `LocalizationLoss`."""
        return (1.0 - iou_ops.matched_giou(prediction, target)) * weights
