"""The coder of Faster R-CNN, SSD and RetinaNet: shifted centre, logarithm of the size."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.ops import boxes as box_ops
from detection_core.parts.box_coders.base import EPSILON, BoxesAlone


@dataclasses.dataclass(frozen=True, kw_only=True)
class FasterRcnnBoxCoder(BoxesAlone):
    """Codes (ty, tx, th, tw): centre shift in anchor sizes and log size ratio, each times its scale.

    Faster R-CNN, https://arxiv.org/abs/1506.01497.

    Attributes:
        y_scale: factor of the vertical shift.
        x_scale: factor of the horizontal shift.
        height_scale: factor of the log height ratio.
        width_scale: factor of the log width ratio.
    """

    y_scale: float
    x_scale: float
    height_scale: float
    width_scale: float

    @property
    def code_size(self) -> int:
        """Numbers per box."""
        return 4

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor, keypoints: tf.Tensor | None = None) -> tf.Tensor:
        """Write boxes relative to anchors, float32 [..., A, 4], (ty, tx, th, tw); see `BoxCoder.encode`."""
        anchor_y, anchor_x, anchor_height, anchor_width = tf.unstack(box_ops.to_centers(anchors), axis=-1)
        y, x, height, width = tf.unstack(box_ops.to_centers(boxes), axis=-1)
        anchor_height, anchor_width = anchor_height + EPSILON, anchor_width + EPSILON
        codes = [
            (y - anchor_y) / anchor_height * self.y_scale,
            (x - anchor_x) / anchor_width * self.x_scale,
            tf.math.log((height + EPSILON) / anchor_height) * self.height_scale,
            tf.math.log((width + EPSILON) / anchor_width) * self.width_scale,
        ]
        return tf.stack(codes, axis=-1)

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Turn codes back into boxes, never inverted; see `BoxCoder.decode`."""
        anchor_y, anchor_x, anchor_height, anchor_width = tf.unstack(box_ops.to_centers(anchors), axis=-1)
        ty, tx, th, tw = tf.unstack(codes, axis=-1)
        centers = [
            ty / self.y_scale * anchor_height + anchor_y,
            tx / self.x_scale * anchor_width + anchor_x,
            tf.exp(th / self.height_scale) * anchor_height,
            tf.exp(tw / self.width_scale) * anchor_width,
        ]
        return box_ops.from_centers(tf.stack(centers, axis=-1))
