"""Similarity of each ground-truth box to each anchor: the measures that matchers compare."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from detection_core.ops import iou as iou_ops

# float32 rows [..., G, 4] and columns [..., A, 4] -> float32 [..., G, A], larger is more alike.
Similarity = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def negative_squared_distance(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Squared distance of the coordinates, negated so that larger is more alike.

    Args:
        rows: float32 [..., G, 4].
        columns: float32 [..., A, 4].

    Returns:
        float32 [..., G, A], at most 0.
    """
    return -iou_ops.squared_distance(rows, columns)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ThresholdedIou:
    """IoU kept where it is high enough and replaced by the score of its row elsewhere.

    Attributes:
        iou_threshold: lowest IoU at which two boxes count as the same object.
    """

    iou_threshold: float

    def __call__(self, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
        """Compare boxes whose rows all have score 1, as ground truth has.

        Args:
            rows: float32 [..., G, 4].
            columns: float32 [..., A, 4].

        Returns:
            float32 [..., G, A].
        """
        return self.with_scores(rows, columns, tf.ones(tf.shape(rows)[:-1], rows.dtype))

    def with_scores(self, rows: tf.Tensor, columns: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        """Compare boxes that carry scores.

        Args:
            rows: float32 [..., G, 4].
            columns: float32 [..., A, 4].
            scores: float32 [..., G].

        Returns:
            float32 [..., G, A]: the row's score where the IoU reaches the threshold, else 0.
        """
        overlap = iou_ops.iou(rows, columns)
        return tf.where(overlap >= self.iou_threshold, scores[..., tf.newaxis], tf.zeros_like(overlap))
