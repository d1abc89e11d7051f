"""What a loss is: numbers per anchor, not reduced, so that mining and normalisation can follow."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import tensorflow as tf


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
    """A classification loss that is faster where at most one target of an anchor is 1, and the others 0."""

    def of_columns(self, prediction: tf.Tensor, columns: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, the sum over its classes.

        Args:
            prediction: float32 [B, A, K], logits.
            columns: int32 [B, A], which target is 1; -1 where none is.
            weights: float32 [B, A].

        Returns:
            float32 [B, A].
        """
        ...


class LocalizationLoss(Protocol):
    """Compares boxes or box codes with their targets.

    Attributes:
        compares_boxes: whether it needs decoded boxes rather than codes.
    """

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
