"""What a box coder is: a way to write a box relative to an anchor in numbers near zero."""

from __future__ import annotations

from typing import Protocol

import tensorflow as tf

# Added to widths and heights before a division or a logarithm, as checkpoints in the field were trained.
EPSILON = 1e-8


class BoxCoder(Protocol):
    """Turns boxes into codes and back.

    Attributes:
        code_size: numbers per box, the last dimension of the codes.
    """

    @property
    def code_size(self) -> int:
        """Numbers per box."""
        ...

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Write boxes relative to anchors.

        Args:
            boxes: float32 [..., A, 4].
            anchors: float32 [A, 4] or [..., A, 4], in the unit of the boxes.

        Returns:
            float32 [..., A, code_size].
        """
        ...

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Turn codes back into boxes.

        Args:
            codes: float32 [..., A, code_size], as `encode` gives them.
            anchors: float32 [A, 4] or [..., A, 4].

        Returns:
            float32 [..., A, 4], in the unit of the anchors, not clipped.
        """
        ...
