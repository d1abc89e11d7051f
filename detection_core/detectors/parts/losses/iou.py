"""Losses on the overlap of decoded boxes."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.ops import iou as iou_ops


class _ComparesBoxes:
    @property
    def compares_boxes(self) -> bool:
        """Whether it needs decoded boxes rather than codes."""
        return True


@dataclasses.dataclass(frozen=True)
class IouLoss(_ComparesBoxes):
    """One minus the IoU, whose gradient is zero where the boxes do not touch.

    UnitBox, https://arxiv.org/abs/1608.01471, takes its negative logarithm instead.
    """

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor.

        Args:
            prediction: float32 [B, A, 4], boxes.
            target: float32 [B, A, 4], boxes.
            weights: float32 [B, A].

        Returns:
            float32 [B, A].
        """
        return (1.0 - iou_ops.matched_iou(prediction, target)) * weights


@dataclasses.dataclass(frozen=True)
class GiouLoss(_ComparesBoxes):
    """One minus the generalised IoU, which still pulls boxes that do not touch.

    Generalized Intersection over Union, https://arxiv.org/abs/1902.09630.
    """

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor.

        Args:
            prediction: float32 [B, A, 4], boxes.
            target: float32 [B, A, 4], boxes.
            weights: float32 [B, A].

        Returns:
            float32 [B, A].
        """
        return (1.0 - iou_ops.matched_giou(prediction, target)) * weights
