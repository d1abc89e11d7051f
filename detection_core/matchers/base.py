"""What a matcher is: it decides which ground-truth row, if any, each anchor stands for."""

from __future__ import annotations

from typing import Protocol

import tensorflow as tf

# Values of a match that are not rows.
UNMATCHED = -1
IGNORED = -2


class Matcher(Protocol):
    """Turns similarities into a row for every anchor."""

    def match(self, similarity: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        """Choose a row for every anchor of every image.

        Args:
            similarity: float32 [B, G, A], larger is more alike; -inf in rows that do not exist (padding).
            valid: bool [B, G], rows that may claim an anchor of their own; a row that exists and is not
                valid (an object of weight 0) can still match by its similarity.

        Returns:
            int32 [B, A], the row, UNMATCHED or IGNORED.
        """
        ...
