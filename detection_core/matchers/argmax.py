"""The matcher of SSD, RetinaNet and Faster R-CNN: each anchor takes its most similar row."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.matchers.base import IGNORED, UNMATCHED


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArgMaxMatcherOptions:
    """When the most similar row is similar enough.

    Attributes:
        matched_threshold: lowest similarity of a match; None makes every anchor match.
        unmatched_threshold: below it an anchor is a negative; between the two it is ignored.
        negatives_lower_than_unmatched: False swaps the two: negatives lie between the thresholds and what
            is below is ignored.
        force_match_for_each_row: whether each valid row also takes the anchor that is most similar to it,
            whatever the thresholds.
    """

    matched_threshold: float | None
    unmatched_threshold: float | None
    negatives_lower_than_unmatched: bool
    force_match_for_each_row: bool


class ArgMaxMatcher:
    """Takes the most similar row of each anchor, subject to thresholds; ties go to the first row."""

    def __init__(self, options: ArgMaxMatcherOptions) -> None:
        _check(options)
        self.options = options

    def match(self, similarity: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        """Choose a row for every anchor of every image.

        Args:
            similarity: float32 [B, G, A]; -inf in rows that do not exist.
            valid: bool [B, G], rows that may force a match.

        Returns:
            int32 [B, A], the row, UNMATCHED or IGNORED.
        """
        if similarity.shape[1] == 0:
            return tf.fill(tf.stack([tf.shape(similarity)[0], tf.shape(similarity)[2]]), UNMATCHED)
        # A row of -inf lets argmax run on a batch without any object, and loses to every row that exists.
        none = tf.fill(tf.stack([tf.shape(similarity)[0], 1, tf.shape(similarity)[2]]), -float("inf"))
        padded = tf.concat([similarity, none], axis=1)
        rows = tf.argmax(padded, axis=1, output_type=tf.int32)
        matches = self._threshold(rows, tf.reduce_max(padded, axis=1))
        if not self.options.force_match_for_each_row:
            return matches
        forced = _forced_rows(similarity, valid)
        return tf.where(forced < tf.shape(similarity)[1], forced, matches)

    def _threshold(self, rows: tf.Tensor, best: tf.Tensor) -> tf.Tensor:
        options = self.options
        if options.matched_threshold is not None:
            below, between = UNMATCHED, IGNORED
            if not options.negatives_lower_than_unmatched:
                below, between = between, below
            rows = tf.where(best < options.matched_threshold, between, rows)
            rows = tf.where(best < options.unmatched_threshold, below, rows)
        return tf.where(tf.math.is_inf(best), UNMATCHED, rows)


def _forced_rows(similarity: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """First row that claims each anchor as its best one: int32 [B, A], G where none does."""
    batch, rows, anchors = tf.unstack(tf.shape(similarity))
    best_anchor = tf.argmax(similarity, axis=2, output_type=tf.int32)
    claims = tf.where(valid, tf.range(rows)[tf.newaxis, :], rows)
    images = tf.broadcast_to(tf.range(batch)[:, tf.newaxis], tf.shape(best_anchor))
    indices = tf.stack([images, best_anchor], axis=-1)
    return tf.tensor_scatter_nd_min(tf.fill([batch, anchors], rows), indices, claims)


def _check(options: ArgMaxMatcherOptions) -> None:
    matched, unmatched = options.matched_threshold, options.unmatched_threshold
    if (matched is None) != (unmatched is None):
        raise ValueError("matched_threshold and unmatched_threshold must be given together or not at all")
    if matched is None or unmatched is None:
        return
    if unmatched > matched:
        raise ValueError(f"unmatched_threshold {unmatched:g} must not exceed matched_threshold {matched:g}")
    if unmatched == matched and not options.negatives_lower_than_unmatched:
        raise ValueError(
            "negatives_lower_than_unmatched: false puts negatives between the thresholds, so "
            f"matched_threshold and unmatched_threshold must differ; both are {matched:g}"
        )
