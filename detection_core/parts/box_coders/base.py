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

    @property
    def num_keypoints(self) -> int:
        """Keypoints of each object, K, that a code holds behind the box; 0 for a coder of boxes alone."""
        ...

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor, keypoints: tf.Tensor | None = None) -> tf.Tensor:
        """Write boxes relative to anchors.

        Args:
            boxes: float32 [..., A, 4].
            anchors: float32 [A, 4] or [..., A, 4], in the unit of the boxes.
            keypoints: float32 [..., A, K, 2], (y, x), in the unit of the boxes; None where K is 0.

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

    def decode_keypoints(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Turn the keypoint part of the codes back into keypoints.

        Args:
            codes: float32 [..., A, code_size], as `encode` gives them.
            anchors: float32 [A, 4] or [..., A, 4].

        Returns:
            float32 [..., A, K, 2], (y, x), in the unit of the anchors.
        """
        ...


class BoxesAlone:
    """The part of a coder that says that its codes hold no keypoints."""

    @property
    def num_keypoints(self) -> int:
        """None of them."""
        return 0

    def decode_keypoints(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Return float32 [..., A, 0, 2]; see `BoxCoder.decode_keypoints`."""
        return tf.zeros(tf.concat([tf.shape(codes)[:-1], [0, 2]], axis=0))
