"""The box coder of google/automl's EfficientDet."""

from __future__ import annotations

import tensorflow as tf

from detection_core.ops import boxes as box_ops
from detection_core.parts.box_coders.base import EPSILON
from detection_core.parts.box_coders.coders import FasterRcnnBoxCoder


class EfficientDetBoxCoder(FasterRcnnBoxCoder):
    """Box coder without scale factors; sides are clamped to at least `EPSILON`, not increased by it."""

    def __init__(self) -> None:
        super().__init__(y_scale=1.0, x_scale=1.0, height_scale=1.0, width_scale=1.0)

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor, keypoints: tf.Tensor | None = None) -> tf.Tensor:
        """Encode boxes relative to anchors, float32 [..., A, 4], (ty, tx, th, tw); see `BoxCoder.encode`."""
        anchor_places, anchor_sides = tf.split(box_ops.to_centers(anchors), 2, axis=-1)
        places, sides = tf.split(box_ops.to_centers(boxes), 2, axis=-1)
        anchor_sides, sides = tf.maximum(anchor_sides, EPSILON), tf.maximum(sides, EPSILON)
        shifts = (places - anchor_places) / anchor_sides
        return tf.concat([shifts, tf.math.log(sides / anchor_sides)], axis=-1)
