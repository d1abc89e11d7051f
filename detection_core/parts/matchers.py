"""Matchers, which assign a ground-truth row, or none, to each anchor."""

import abc
import dataclasses
from collections.abc import Callable

import tensorflow as tf

# Match values other than row numbers.
UNMATCHED = -1
IGNORED = -2

# int32 [] row -> float32 [B, A], similarity of that row of every image with every anchor. Larger is more
# similar; -inf marks padding rows.
RowSimilarity = Callable[[tf.Tensor], tf.Tensor]


class Matcher(abc.ABC):
    """Assigns a row to every anchor by similarity.

    Similarities are computed row by row: those of a whole batch, [B, G, A], can be gigabytes.
    """

    @abc.abstractmethod
    def match_rows(self, similarity_of: RowSimilarity, valid: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Choose a row for every anchor of every image.

        Args:
            similarity_of: returns the similarities of one row.
            valid: bool [B, G], rows that may force a match. A real row that is not valid (an object of weight
                0) can still match by its similarity.
            anchors: int32 [], A.

        Returns:
            int32 [B, A], the row, UNMATCHED or IGNORED.
        """

    def match(self, similarity: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        """Choose a row for every anchor, int32 [B, A]: its number, UNMATCHED or IGNORED.

        The similarity is float32 [B, G, A], larger is more similar, -inf in padding rows; valid is bool [B,
        G].
        """
        similarity = tf.convert_to_tensor(similarity)

        def similarity_of(row: tf.Tensor) -> tf.Tensor:
            return tf.gather(similarity, row, axis=1)

        return self.match_rows(similarity_of, tf.convert_to_tensor(valid), tf.shape(similarity)[2])


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArgMaxMatcher(Matcher):
    """Assigns each anchor its most similar row, subject to thresholds; ties go to the first row.

    Faster R-CNN, https://arxiv.org/abs/1506.01497, and SSD, https://arxiv.org/abs/1512.02325.

    Attributes:
        matched_threshold: lowest similarity of a match; None: every anchor matches.
        unmatched_threshold: anchors below it are negatives; those between the thresholds are ignored.
        negatives_lower_than_unmatched: False swaps the two: anchors between the thresholds are negatives,
            those below are ignored.
        force_match_for_each_row: whether each valid row also takes its most similar anchor, regardless of the
            thresholds.
    """

    matched_threshold: float | None
    unmatched_threshold: float | None
    negatives_lower_than_unmatched: bool
    force_match_for_each_row: bool

    def __post_init__(self) -> None:
        matched, unmatched = self.matched_threshold, self.unmatched_threshold
        if (matched is None) != (unmatched is None):
            raise ValueError("matched_threshold and unmatched_threshold must be given together or not at all")
        if matched is None or unmatched is None:
            return
        if unmatched > matched:
            raise ValueError(
                f"unmatched_threshold {unmatched:g} must not exceed matched_threshold {matched:g}"
            )
        if unmatched == matched and not self.negatives_lower_than_unmatched:
            raise ValueError(
                "negatives_lower_than_unmatched: false puts negatives between the thresholds, so "
                f"matched_threshold and unmatched_threshold must differ; both are {matched:g}"
            )

    def match_rows(self, similarity_of: RowSimilarity, valid: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Choose a row for every anchor of every image; see `Matcher.match_rows`."""
        batch, rows = tf.unstack(tf.shape(valid))

        def take(
            row: tf.Tensor, best: tf.Tensor, best_row: tf.Tensor, claims: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            similarity = similarity_of(row)
            # Only a larger value replaces, so ties stay with the first row, and -inf never matches.
            best_row = tf.where(similarity > best, row, best_row)
            if self.force_match_for_each_row:
                claim = tf.argmax(similarity, axis=1, output_type=tf.int32)
                claims = tf.tensor_scatter_nd_update(claims, [[row]], claim[tf.newaxis])
            return row + 1, tf.maximum(best, similarity), best_row, claims

        best = tf.fill([batch, anchors], -float("inf"))
        claims = tf.zeros([rows, batch], tf.int32)
        any_size = tf.TensorShape([None, None])
        _, best, best_row, claims = tf.while_loop(
            lambda row, *_: row < rows,
            take,
            (0, best, tf.fill([batch, anchors], UNMATCHED), claims),
            shape_invariants=(tf.TensorShape([]), any_size, any_size, any_size),
        )
        matches = self._threshold(best_row, best)
        if not self.force_match_for_each_row:
            return matches
        forced = _first_claim(tf.transpose(claims), valid, anchors)
        return tf.where(forced < rows, forced, matches)

    def _threshold(self, rows: tf.Tensor, best: tf.Tensor) -> tf.Tensor:
        if self.matched_threshold is None:
            return rows
        below, between = UNMATCHED, IGNORED
        if not self.negatives_lower_than_unmatched:
            below, between = between, below
        exists = rows != UNMATCHED
        rows = tf.where(best < self.matched_threshold, between, rows)
        rows = tf.where(best < self.unmatched_threshold, below, rows)
        return tf.where(exists, rows, UNMATCHED)


def _first_claim(best_anchor: tf.Tensor, valid: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
    """Return the first valid row that claims each anchor, int32 [B, A], or G; best_anchor is int32 [B, G]."""
    batch, rows = tf.unstack(tf.shape(valid))
    claims = tf.where(valid, tf.range(rows)[tf.newaxis, :], rows)
    images = tf.broadcast_to(tf.range(batch)[:, tf.newaxis], [batch, rows])
    indices = tf.stack([images, best_anchor], axis=-1)
    return tf.tensor_scatter_nd_min(tf.fill([batch, anchors], rows), indices, claims)


class GreedyBipartiteMatcher(Matcher):
    """Matches rows and anchors one to one: repeatedly takes the most similar remaining pair of a valid row.

    Rows that are not valid are not matched. All similarities of a batch are in memory at once.

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
