"""The matcher of MultiBox: one anchor for each row, the most similar pairs first."""

from __future__ import annotations

import tensorflow as tf

from detection_core.parts.matchers.base import UNMATCHED, Matcher, RowSimilarity


class GreedyBipartiteMatcher(Matcher):
    """Pairs rows and anchors one to one: the most similar pair left is taken until no valid row is left.

    Rows that are not valid take no part. It holds all similarities of a batch at once.

    MultiBox, https://arxiv.org/abs/1312.2249, with a greedy assignment.
    """

    def match_rows(self, similarity_of: RowSimilarity, valid: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Choose a row for every anchor of every image; see `Matcher.match_rows`."""
        batch, rows = tf.unstack(tf.shape(valid))
        images = tf.range(batch)
        similarity = tf.transpose(_collect(similarity_of, rows, batch, anchors), [1, 0, 2])
        left = tf.where(valid[..., tf.newaxis], similarity, -float("inf"))

        def take_best(step: tf.Tensor, left: tf.Tensor, matches: tf.Tensor) -> tuple[tf.Tensor, ...]:
            flat = tf.reshape(left, [batch, -1])
            best = tf.argmax(flat, axis=1, output_type=tf.int32)
            row, anchor = best // anchors, best % anchors
            found = tf.gather(flat, best, batch_dims=1) > -float("inf")
            pairs = tf.boolean_mask(tf.stack([images, anchor], axis=-1), found)
            matches = tf.tensor_scatter_nd_update(matches, pairs, tf.boolean_mask(row, found))
            row_gone = tf.one_hot(row, rows, on_value=True, off_value=False)
            anchor_gone = tf.one_hot(anchor, anchors, on_value=True, off_value=False)
            gone = row_gone[..., tf.newaxis] | anchor_gone[:, tf.newaxis]
            return step + 1, tf.where(gone, -float("inf"), left), matches

        start = (0, left, tf.fill([batch, anchors], UNMATCHED))
        shapes = (tf.TensorShape([]), tf.TensorShape([None, None, None]), tf.TensorShape([None, None]))
        return tf.while_loop(lambda step, *_: step < rows, take_best, start, shape_invariants=shapes)[2]


def _collect(
    similarity_of: RowSimilarity, rows: tf.Tensor, batch: tf.Tensor, anchors: tf.Tensor
) -> tf.Tensor:
    """Compute the similarities of all rows: float32 [G, B, A], also where G is 0."""

    def fill(row: tf.Tensor, table: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return row + 1, tf.tensor_scatter_nd_update(table, [[row]], similarity_of(row)[tf.newaxis])

    shapes = (tf.TensorShape([]), tf.TensorShape([None, None, None]))
    table = tf.zeros([rows, batch, anchors])
    return tf.while_loop(lambda row, _: row < rows, fill, (0, table), shape_invariants=shapes)[1]
