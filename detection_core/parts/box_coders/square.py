"""The coder of square objects: a centre and one length.

The coding of Ren et al., 2015, https://arxiv.org/abs/1506.01497, with one length instead of two.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.ops import boxes as box_ops
from detection_core.parts.box_coders.base import EPSILON, BoxesAlone


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquareBoxCoder(BoxesAlone):
    """Codes (ty, tx, tl): shifts in anchor lengths and log length ratio, each times its scale.

    The Object Detection API's own; it is in no paper.

    The length of a box is the side of the square of equal area, so decoding gives squares.

    Attributes:
        y_scale: factor of the vertical shift.
        x_scale: factor of the horizontal shift.
        length_scale: factor of the log length ratio.
    """

    y_scale: float
    x_scale: float
    length_scale: float

    @property
    def code_size(self) -> int:
        """Numbers per box."""
        return 3

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor, keypoints: tf.Tensor | None = None) -> tf.Tensor:
        """Write boxes relative to anchors, float32 [..., A, 3], (ty, tx, tl); see `BoxCoder.encode`."""
        anchor_y, anchor_x, anchor_height, anchor_width = tf.unstack(box_ops.to_centers(anchors), axis=-1)
        y, x, height, width = tf.unstack(box_ops.to_centers(boxes), axis=-1)
        anchor_length = tf.sqrt(anchor_height * anchor_width) + EPSILON
        length = tf.sqrt(height * width) + EPSILON
        codes = [
            (y - anchor_y) / anchor_length * self.y_scale,
            (x - anchor_x) / anchor_length * self.x_scale,
            tf.math.log(length / anchor_length) * self.length_scale,
        ]
        return tf.stack(codes, axis=-1)

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Turn codes back into square boxes; see `BoxCoder.decode`."""
        anchor_y, anchor_x, anchor_height, anchor_width = tf.unstack(box_ops.to_centers(anchors), axis=-1)
        ty, tx, tl = tf.unstack(codes, axis=-1)
        anchor_length = tf.sqrt(anchor_height * anchor_width)
        length = tf.exp(tl / self.length_scale) * anchor_length
        centers = [
            ty / self.y_scale * anchor_length + anchor_y,
            tx / self.x_scale * anchor_length + anchor_x,
            length,
            length,
        ]
        return box_ops.from_centers(tf.stack(centers, axis=-1))
