"""Protocols of losses, replacement of NaN targets, and the losses of an anchor-based detector."""

from __future__ import annotations

import dataclasses
from typing import Protocol, runtime_checkable

import tensorflow as tf

from detection_core.parts.samplers.balanced import BalancedSampler
from detection_core.parts.samplers.hard_examples import HardExampleMiner


class ClassificationLoss(Protocol):
    """Compares class logits with class targets."""

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor.

        Args:
            prediction: float32 [B, A, K], logits; K is C or C + 1.
            target: float32 [B, A, K], in [0, 1] where the loss does not say otherwise.
            weights: float32 [B, A, 1] or [B, A, K].

        Returns:
            float32 [B, A, K] where classes are independent, [B, A] where they compete.
        """
        ...


@runtime_checkable
class ColumnLoss(Protocol):
    """A classification loss with a faster form for targets that are 0 except for at most one 1 per anchor."""

    def of_columns(self, prediction: tf.Tensor, columns: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, the sum over its classes.

        Args:
            prediction: float32 [B, A, K], logits.
            columns: int32 [B, A], index of the target that is 1; -1 if none is.
            weights: float32 [B, A].

        Returns:
            float32 [B, A].
        """
        ...


class LocalizationLoss(Protocol):
    """Compares boxes or box codes with their targets."""

    @property
    def compares_boxes(self) -> bool:
        """Whether it needs decoded boxes rather than codes."""
        ...

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor.

        Args:
            prediction: float32 [B, A, K], codes, or boxes [B, A, 4].
            target: float32 [B, A, K].
            weights: float32 [B, A].

        Returns:
            float32 [B, A].
        """
        ...


def replace_nan_targets(prediction: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Replace NaN targets by the prediction, so that the loss is 0 there; NaN marks unknown keypoints.

    Returns:
        float32 [...], the target without NaN.
    """
    return tf.where(tf.math.is_nan(target), prediction, target)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorLosses:
    """Losses, their weights, and the selection of anchors that count.

    Attributes:
        classification: loss of class logits.
        localization: loss of boxes or box codes.
        classification_weight: factor of the summed classification loss.
        localization_weight: factor of the summed localisation loss.
        hard_example_miner: selects the anchors that count; None: all.
        random_example_sampler: draws the anchors whose classification counts; None: all.
    """

    classification: ClassificationLoss
    localization: LocalizationLoss
    classification_weight: float
    localization_weight: float
    hard_example_miner: HardExampleMiner | None
    random_example_sampler: BalancedSampler | None
