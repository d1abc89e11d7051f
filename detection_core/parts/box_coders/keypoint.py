"""The Faster R-CNN coder with a number of keypoints behind the box.

The box part is that of Ren et al., 2015, https://arxiv.org/abs/1506.01497; keypoints are shifted and scaled
by the same anchor.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.ops import boxes as box_ops
from detection_core.parts.box_coders.base import EPSILON
from detection_core.parts.box_coders.faster_rcnn import FasterRcnnBoxCoder


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeypointBoxCoder:
    """Codes (ty, tx, th, tw, ty0, tx0, ty1, tx1, ...): a box code, then each keypoint's shift.

    The Object Detection API's own extension of Faster R-CNN's coder.

    A keypoint is coded like a centre: its distance from the anchor's centre in anchor sizes, times the
    scale of the axis.

    Attributes:
        num_keypoints: keypoints of each object, K.
        box_coder: the coder of the first four numbers, whose scales of shifts are those of the keypoints.
    """

    num_keypoints: int
    box_coder: FasterRcnnBoxCoder

    @property
    def code_size(self) -> int:
        """Numbers per box."""
        return 4 + 2 * self.num_keypoints

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor, keypoints: tf.Tensor | None = None) -> tf.Tensor:
        """Write boxes and keypoints relative to anchors, float32 [..., A, 4 + 2K]; see `BoxCoder.encode`.

        Raises:
            ValueError: when keypoints are missing, as there is no code of a box alone.
        """
        if keypoints is None:
            raise ValueError("KeypointBoxCoder.encode expects keypoints [..., A, K, 2], found none")
        centers = box_ops.to_centers(anchors)
        shifts = (keypoints - centers[..., tf.newaxis, :2]) / (centers[..., tf.newaxis, 2:] + EPSILON)
        shifts *= tf.constant([self.box_coder.y_scale, self.box_coder.x_scale])
        flat = tf.reshape(shifts, tf.concat([tf.shape(shifts)[:-2], [2 * self.num_keypoints]], axis=0))
        return tf.concat([self.box_coder.encode(boxes, anchors), flat], axis=-1)

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Turn the box part of the codes back into boxes; see `BoxCoder.decode`."""
        return self.box_coder.decode(codes[..., :4], anchors)

    def decode_keypoints(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Turn the keypoint part of the codes back into keypoints; see `BoxCoder.decode_keypoints`."""
        centers = box_ops.to_centers(anchors)
        shape = tf.concat([tf.shape(codes)[:-1], [self.num_keypoints, 2]], axis=0)
        shifts = tf.reshape(codes[..., 4:], shape) / tf.constant(
            [self.box_coder.y_scale, self.box_coder.x_scale]
        )
        return shifts * centers[..., tf.newaxis, 2:] + centers[..., tf.newaxis, :2]
