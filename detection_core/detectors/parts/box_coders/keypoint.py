"""The Faster R-CNN coder with a number of keypoints behind the box.

The box part is that of Ren et al., 2015, https://arxiv.org/abs/1506.01497; keypoints are shifted and scaled
by the same anchor.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.detectors.parts.box_coders.base import EPSILON
from detection_core.detectors.parts.box_coders.faster_rcnn import FasterRcnnBoxCoder
from detection_core.ops import boxes as box_ops


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeypointBoxCoder:
    """Codes (ty, tx, th, tw, ty0, tx0, ty1, tx1, ...): a box code, then each keypoint's shift.

    The Object Detection API's own extension of Faster R-CNN's coder.

    A keypoint is coded like a centre: its distance from the anchor's centre in anchor sizes, times the
    scale of the axis.

    Attributes:
        num_keypoints: keypoints of each object, K.
        y_scale: factor of vertical shifts, of the box and of the keypoints.
        x_scale: factor of horizontal shifts, likewise.
        height_scale: factor of the log height ratio.
        width_scale: factor of the log width ratio.
    """

    num_keypoints: int
    y_scale: float
    x_scale: float
    height_scale: float
    width_scale: float

    @property
    def code_size(self) -> int:
        """Numbers per box."""
        return 4 + 2 * self.num_keypoints

    @property
    def box_coder(self) -> FasterRcnnBoxCoder:
        """The coder of the first four numbers."""
        return FasterRcnnBoxCoder(
            y_scale=self.y_scale,
            x_scale=self.x_scale,
            height_scale=self.height_scale,
            width_scale=self.width_scale,
        )

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor, keypoints: tf.Tensor | None = None) -> tf.Tensor:
        """Write boxes and their keypoints relative to anchors.

        Args:
            boxes: float32 [..., A, 4].
            anchors: float32 [A, 4] or [..., A, 4], in the unit of the boxes.
            keypoints: float32 [..., A, K, 2], (y, x), in the unit of the boxes.

        Returns:
            float32 [..., A, 4 + 2K].

        Raises:
            ValueError: when keypoints are missing, as there is no code of a box alone.
        """
        if keypoints is None:
            raise ValueError("KeypointBoxCoder.encode expects keypoints [..., A, K, 2], found none")
        centers = box_ops.to_centers(anchors)
        shifts = (keypoints - centers[..., tf.newaxis, :2]) / (centers[..., tf.newaxis, 2:] + EPSILON)
        shifts *= tf.constant([self.y_scale, self.x_scale])
        flat = tf.reshape(shifts, tf.concat([tf.shape(shifts)[:-2], [2 * self.num_keypoints]], axis=0))
        return tf.concat([self.box_coder.encode(boxes, anchors), flat], axis=-1)

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Turn the box part of the codes back into boxes.

        Args:
            codes: float32 [..., A, 4 + 2K], as `encode` gives them.
            anchors: float32 [A, 4] or [..., A, 4].

        Returns:
            float32 [..., A, 4], in the unit of the anchors, not clipped.
        """
        return self.box_coder.decode(codes[..., :4], anchors)

    def decode_keypoints(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Turn the keypoint part of the codes back into keypoints.

        Args:
            codes: float32 [..., A, 4 + 2K], as `encode` gives them.
            anchors: float32 [A, 4] or [..., A, 4].

        Returns:
            float32 [..., A, K, 2], (y, x), in the unit of the anchors.
        """
        centers = box_ops.to_centers(anchors)
        shape = tf.concat([tf.shape(codes)[:-1], [self.num_keypoints, 2]], axis=0)
        shifts = tf.reshape(codes[..., 4:], shape) / tf.constant([self.y_scale, self.x_scale])
        return shifts * centers[..., tf.newaxis, 2:] + centers[..., tf.newaxis, :2]
