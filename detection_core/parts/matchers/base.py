"""What a matcher is: it decides which ground-truth row, if any, each anchor stands for."""

from __future__ import annotations

import abc
from collections.abc import Callable

import tensorflow as tf

# Values of a match that are not rows.
UNMATCHED = -1
IGNORED = -2

# int32 [] row -> float32 [B, A], similarity of that row of every image with every anchor; larger is more
# alike, and -inf stands for a row that does not exist (padding).
RowSimilarity = Callable[[tf.Tensor], tf.Tensor]


class Matcher(abc.ABC):
    """Turns similarities into a row for every anchor.

    Similarities come row by row on demand: those of a batch at once, [B, G, A], can be gigabytes.
    """

    @abc.abstractmethod
    def match_rows(self, similarity_of: RowSimilarity, valid: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Choose a row for every anchor of every image.

        Args:
            similarity_of: gives the similarities of one row.
            valid: bool [B, G], rows that may claim an anchor by force; a row that exists and is not
                valid (an object of weight 0) can still match by its similarity.
            anchors: int32 [], A.

        Returns:
            int32 [B, A], the row, UNMATCHED or IGNORED.
        """

    def match(self, similarity: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        """Choose a row for every anchor of every image from similarities that are already there.

        Args:
            similarity: float32 [B, G, A], larger is more alike; -inf in rows that do not exist.
            valid: bool [B, G], as for `match_rows`.

        Returns:
            int32 [B, A], the row, UNMATCHED or IGNORED.
        """
        similarity = tf.convert_to_tensor(similarity)

        def similarity_of(row: tf.Tensor) -> tf.Tensor:
            return tf.gather(similarity, row, axis=1)

        return self.match_rows(similarity_of, tf.convert_to_tensor(valid), tf.shape(similarity)[2])
