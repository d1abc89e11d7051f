"""Base of matchers, which assign a ground-truth row, or none, to each anchor."""

from __future__ import annotations

import abc
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
        """Choose a row for every anchor of every image from a similarity tensor.

        Args:
            similarity: float32 [B, G, A], larger is more similar; -inf in padding rows.
            valid: bool [B, G], as for `match_rows`.

        Returns:
            int32 [B, A], the row, UNMATCHED or IGNORED.
        """
        similarity = tf.convert_to_tensor(similarity)

        def similarity_of(row: tf.Tensor) -> tf.Tensor:
            return tf.gather(similarity, row, axis=1)

        return self.match_rows(similarity_of, tf.convert_to_tensor(valid), tf.shape(similarity)[2])
