"""The matcher of MultiBox: one anchor for each row, the most similar pairs first."""

from __future__ import annotations

import tensorflow as tf

from detection_core.matchers.base import UNMATCHED


class GreedyBipartiteMatcher:
    """Pairs rows and anchors one to one: the most similar pair left is taken until no valid row is left.

    Erhan et al., Scalable Object Detection using Deep Neural Networks, 2014, with a greedy assignment.
    """

    def match(self, similarity: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        """Choose a row for every anchor of every image; rows that are not valid take no part.

        Args:
            similarity: float32 [B, G, A], larger is more alike.
            valid: bool [B, G], rows that take part.

        Returns:
            int32 [B, A], the row or UNMATCHED.
        """
        batch, rows, anchors = tf.unstack(tf.shape(similarity))
        images = tf.range(batch)
        matches = tf.fill([batch, anchors], UNMATCHED)
        if similarity.shape[1] == 0:
            return matches
        left = tf.where(valid[..., tf.newaxis], similarity, -float("inf"))

        def take_best(step: tf.Tensor, left: tf.Tensor, matches: tf.Tensor) -> tuple[tf.Tensor, ...]:
            flat = tf.reshape(left, [batch, -1])
            best = tf.argmax(flat, axis=1, output_type=tf.int32)
            row, anchor = best // anchors, best % anchors
            found = tf.gather(flat, best, batch_dims=1) > -float("inf")
            pairs = tf.boolean_mask(tf.stack([images, anchor], axis=-1), found)
            matches = tf.tensor_scatter_nd_update(matches, pairs, tf.boolean_mask(row, found))
            gone = (
                tf.one_hot(row, rows, on_value=True, off_value=False)[..., tf.newaxis]
                | (tf.one_hot(anchor, anchors, on_value=True, off_value=False)[:, tf.newaxis])
            )
            return step + 1, tf.where(gone, -float("inf"), left), matches

        _, _, matches = tf.while_loop(lambda step, *_: step < rows, take_best, (0, left, matches))
        return matches
