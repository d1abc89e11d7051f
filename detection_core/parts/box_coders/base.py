"""Protocol of box coders, which encode a box relative to an anchor as numbers near zero."""

from __future__ import annotations

from typing import Protocol

import tensorflow as tf

# Added to widths and heights before a division or logarithm, to match published checkpoints.
EPSILON = 1e-8


class BoxCoder(Protocol):
    """Encodes boxes and decodes them."""

    @property
    def code_size(self) -> int:
        """Numbers per box, the last dimension of the codes."""
        ...

    @property
    def num_keypoints(self) -> int:
        """Keypoints per object, K, in a code after the box; 0 for a coder of boxes only."""
        ...

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor, keypoints: tf.Tensor | None = None) -> tf.Tensor:
        """Encode boxes relative to anchors.

        Args:
            boxes: float32 [..., A, 4].
            anchors: float32 [A, 4] or [..., A, 4], in the unit of the boxes.
            keypoints: float32 [..., A, K, 2], (y, x), in the unit of the boxes; None where K is 0.

        Returns:
            float32 [..., A, code_size].
        """
        ...

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Decode codes from `encode`, float32 [..., A, code_size]; anchors are [A, 4] or [..., A, 4].

        Returns:
            float32 [..., A, 4], in the unit of the anchors, not clipped.
        """
        ...

    def decode_keypoints(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Decode the keypoints of codes from `encode`; anchors are float32 [A, 4] or [..., A, 4].

        Returns:
            float32 [..., A, K, 2], (y, x), in the unit of the anchors.
        """
        ...


class BoxesAlone:
    """Base of coders without keypoints."""

    @property
    def num_keypoints(self) -> int:
        """Number of keypoints: none."""
        return 0

    def decode_keypoints(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Return float32 [..., A, 0, 2]; see `BoxCoder.decode_keypoints`."""
        return tf.zeros(tf.concat([tf.shape(codes)[:-1], [0, 2]], axis=0))
