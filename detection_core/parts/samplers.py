"""Samplers, which choose the anchors that a loss counts: at random, or the hardest."""

import dataclasses
from typing import Literal, NamedTuple

import tensorflow as tf

from detection_core.ops.update_draws import draw_uniform
from detection_core.parts.matchers import UNMATCHED


@dataclasses.dataclass(frozen=True, kw_only=True)
class BalancedSampler:
    """Samples positives and negatives in a fixed proportion, for every image of a batch at once.

    Faster R-CNN, https://arxiv.org/abs/1506.01497.

    Attributes:
        positive_fraction: largest fraction of positives in a sample.
    """

    positive_fraction: float

    def sample(self, candidates: tf.Tensor, positive: tf.Tensor, size: int | None = None) -> tf.Tensor:
        """Choose the anchors that count, bool [B, A], among candidates, some of them positive, bool [B, A].

        `size` are drawn from each image; None: all positives, and negatives in proportion.
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
            drawn_positive = _draw(positive, most_positives, "sampled_positives", size)
            most_negatives = size - _count(drawn_positive)
        return drawn_positive | _draw(negative, most_negatives, "sampled_negatives", size)


def _count(mask: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)


def _draw(mask: tf.Tensor, most: tf.Tensor, name: str, limit: int | None) -> tf.Tensor:
    """Keep a random subset of at most `most` [B] true elements of each row of `mask` [B, A].

    `limit` bounds `most`, so that only as many need to be sorted; None: all are.
    """
    batch, number = tf.unstack(tf.shape(mask))
    count = number if limit is None else tf.minimum(limit, number)
    order = tf.where(mask, draw_uniform(name, tf.shape(mask)), 2.0)
    # For ties, top_k takes the first.
    first = tf.math.top_k(-order, count).indices + tf.range(batch)[:, tf.newaxis] * number
    kept = tf.reshape(tf.range(count) < most[:, tf.newaxis], [-1])
    drawn = tf.scatter_nd(tf.reshape(first, [-1, 1]), kept, [batch * number])
    return mask & tf.reshape(drawn, tf.shape(mask))


class MinedLosses(NamedTuple):
    """Sums over the anchors that count, float32 []."""

    localization: tf.Tensor
    classification: tf.Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class HardExampleMiner:
    """Keeps the anchors of largest loss, without near duplicates, and balances negatives with positives.

    Online hard example mining, https://arxiv.org/abs/1604.03540; the ratio of negatives is SSD's.

    Attributes:
        num_hard_examples: largest number of counted anchors per image; 0: no limit.
        iou_threshold: of two anchors whose decoded boxes overlap more, only the harder one counts.
        loss_type: which loss measures how hard an anchor is.
        max_negatives_per_positive: negatives per positive; 0: no limit.
        min_negatives_per_image: negatives that may count in any image, even without positives.
        classification_weight: factor of the classification loss in `loss_type`.
        localization_weight: factor of the localisation loss in `loss_type`.
    """

    num_hard_examples: int
    iou_threshold: float
    loss_type: Literal["BOTH", "CLASSIFICATION", "LOCALIZATION"]
    max_negatives_per_positive: float
    min_negatives_per_image: int
    classification_weight: float
    localization_weight: float

    def select(
        self, localization: tf.Tensor, classification: tf.Tensor, boxes: tf.Tensor, matched: tf.Tensor
    ) -> tf.Tensor:
        """Choose the anchors that count, bool [B, A], by their losses, float32 [B, A].

        Boxes are float32 [B, A, 4], decoded; matched is int32 [B, A], row of the ground truth, -1 unmatched,
        -2 ignored.
        """
        weighted = {
            "LOCALIZATION": localization * self.localization_weight,
            "CLASSIFICATION": classification * self.classification_weight,
        }
        hardness = tf.stop_gradient(weighted.get(self.loss_type, tf.add_n(list(weighted.values()))))
        kept = tf.map_fn(
            self._select_in_image,
            (hardness, tf.stop_gradient(boxes), matched),
            fn_output_signature=tf.TensorSpec([None], tf.bool),
        )
        return tf.ensure_shape(kept, localization.shape)

    def mine(
        self, localization: tf.Tensor, classification: tf.Tensor, boxes: tf.Tensor, matched: tf.Tensor
    ) -> MinedLosses:
        """Sum the losses of the anchors that `select` chooses, over the batch; same arguments."""
        kept = self.select(localization, classification, boxes, matched)
        zeros = tf.zeros_like(localization)
        return MinedLosses(
            localization=tf.reduce_sum(tf.where(kept, localization, zeros)),
            classification=tf.reduce_sum(tf.where(kept, classification, zeros)),
        )

    def _select_in_image(self, image: tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Choose the anchors of one image: (float32 [A], float32 [A, 4], int32 [A]) to bool [A]."""
        hardness, boxes, matched = image
        anchors = tf.shape(hardness)[0]
        limit = tf.minimum(self.num_hard_examples or anchors, anchors)
        chosen = tf.image.non_max_suppression(boxes, hardness, limit, self.iou_threshold)
        if self.max_negatives_per_positive:
            chosen = self._balance(chosen, tf.gather(matched, chosen))
        return tf.scatter_nd(chosen[:, tf.newaxis], tf.ones_like(chosen, tf.bool), [anchors])

    def _balance(self, chosen: tf.Tensor, matched: tf.Tensor) -> tf.Tensor:
        """Drop negatives after the last one allowed; `chosen` is sorted by falling hardness."""
        positive = matched >= 0
        positives = tf.reduce_sum(tf.cast(positive, tf.float32))
        allowed = tf.cast(positives * self.max_negatives_per_positive, tf.int32)
        allowed = tf.maximum(allowed, self.min_negatives_per_image)
        negatives_so_far = tf.cumsum(tf.cast(matched == UNMATCHED, tf.int32))
        return tf.boolean_mask(chosen, positive | (negatives_so_far <= allowed))
