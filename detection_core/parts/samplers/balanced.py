"""Random sampling of anchors with a given fraction of positives."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.ops.update_draws import draw_uniform


@dataclasses.dataclass(frozen=True, kw_only=True)
class BalancedSampler:
    """Samples positives and negatives in a fixed proportion, for every image of a batch at once.

    Faster R-CNN, https://arxiv.org/abs/1506.01497.

    Attributes:
        positive_fraction: largest fraction of positives in a sample.
    """

    positive_fraction: float

    def sample(self, candidates: tf.Tensor, positive: tf.Tensor, size: int | None = None) -> tf.Tensor:
        """Choose the anchors that count.

        Args:
            candidates: bool [B, A], anchors that may be drawn.
            positive: bool [B, A], which of them are positives.
            size: anchors to draw from each image; None: all positives, and negatives in proportion.

        Returns:
            bool [B, A].
        """
        positive &= candidates
        negative = candidates & ~positive
        if size is None:
            drawn_positive = positive
            counted = tf.cast(_count(positive), tf.float32)
            negative_fraction = 1.0 - self.positive_fraction
            most_negatives = tf.cast(counted * (negative_fraction / self.positive_fraction), tf.int32)
        else:
            most_positives = tf.fill(tf.shape(positive)[:1], int(self.positive_fraction * size))
            drawn_positive = _draw(positive, most_positives, "sampled_positives")
            most_negatives = size - _count(drawn_positive)
        return drawn_positive | _draw(negative, most_negatives, "sampled_negatives")


def _count(mask: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)


def _draw(mask: tf.Tensor, most: tf.Tensor, name: str) -> tf.Tensor:
    """Keep a random subset of at most `most` [B] true elements of each row of `mask` [B, A]."""
    order = tf.where(mask, draw_uniform(name, tf.shape(mask)), 2.0)
    rank = tf.argsort(tf.argsort(order, axis=1), axis=1)
    return mask & (rank < most[:, tf.newaxis])
