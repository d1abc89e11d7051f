"""Box coders, which encode a box relative to an anchor as numbers near zero."""

import dataclasses
from typing import Protocol

import tensorflow as tf

from detection_core.ops import boxes as box_ops

# Added to widths and heights before a division or logarithm, to match published checkpoints.
EPSILON = 1e-8


class BoxCoder(Protocol):
    """Encodes boxes and decodes them."""

    @property
    def code_size(self) -> int:
        """Numbers per box, the last dimension of the codes."""

    @property
    def num_keypoints(self) -> int:
        """Keypoints per object, K, in a code after the box; 0 for a coder of boxes only."""

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor, keypoints: tf.Tensor | None = None) -> tf.Tensor:
        """Encode boxes relative to anchors.

        Args:
            boxes: float32 [..., A, 4].
            anchors: float32 [A, 4] or [..., A, 4], in the unit of the boxes.
            keypoints: float32 [..., A, K, 2], (y, x), in the unit of the boxes; None where K is 0.

        Returns:
            float32 [..., A, code_size].
        """

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Decode codes from `encode`, float32 [..., A, code_size]; anchors are [A, 4] or [..., A, 4].

        Returns:
            float32 [..., A, 4], in the unit of the anchors, not clipped.
        """

    def decode_keypoints(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Decode the keypoints of codes from `encode`; anchors are float32 [A, 4] or [..., A, 4].

        Returns:
            float32 [..., A, K, 2], (y, x), in the unit of the anchors.
        """


class BoxesAlone:
    """Base of coders without keypoints."""

    num_keypoints = 0

    def decode_keypoints(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Return float32 [..., A, 0, 2]; see `BoxCoder.decode_keypoints`."""
        return tf.zeros(tf.concat([tf.shape(codes)[:-1], [0, 2]], axis=0))


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

    code_size = 4

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor, keypoints: tf.Tensor | None = None) -> tf.Tensor:
        """Encode boxes, float32 [..., A, 4], (ty, tx, th, tw); see `BoxCoder.encode`."""
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
        """Decode boxes, which are never inverted; see `BoxCoder.decode`."""
        anchor_y, anchor_x, anchor_height, anchor_width = tf.unstack(box_ops.to_centers(anchors), axis=-1)
        ty, tx, th, tw = tf.unstack(codes, axis=-1)
        centers = [
            ty / self.y_scale * anchor_height + anchor_y,
            tx / self.x_scale * anchor_width + anchor_x,
            tf.exp(th / self.height_scale) * anchor_height,
            tf.exp(tw / self.width_scale) * anchor_width,
        ]
        return box_ops.from_centers(tf.stack(centers, axis=-1))


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeypointBoxCoder:
    """Codes (ty, tx, th, tw, ty0, tx0, ty1, tx1, ...): a box code, then each keypoint's shift.

    An extension of Faster R-CNN's coder by the Object Detection API. A keypoint is encoded like a centre: its
    distance from the anchor's centre in anchor sizes, times the scale of the axis.

    Attributes:
        num_keypoints: keypoints per object, K.
        box_coder: coder of the first four numbers; keypoints use its scales of shifts.
    """

    num_keypoints: int
    box_coder: FasterRcnnBoxCoder

    @property
    def code_size(self) -> int:
        """Numbers per box."""
        return 4 + 2 * self.num_keypoints

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor, keypoints: tf.Tensor | None = None) -> tf.Tensor:
        """Encode boxes and keypoints, float32 [..., A, 4 + 2K]; ValueError when keypoints are missing."""
        if keypoints is None:
            raise ValueError("KeypointBoxCoder.encode expects keypoints [..., A, K, 2], found none")
        centers = box_ops.to_centers(anchors)
        shifts = (keypoints - centers[..., tf.newaxis, :2]) / (centers[..., tf.newaxis, 2:] + EPSILON)
        shifts *= tf.constant([self.box_coder.y_scale, self.box_coder.x_scale])
        flat = tf.reshape(shifts, tf.concat([tf.shape(shifts)[:-2], [2 * self.num_keypoints]], axis=0))
        return tf.concat([self.box_coder.encode(boxes, anchors), flat], axis=-1)

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Decode the boxes; see `BoxCoder.decode`."""
        return self.box_coder.decode(codes[..., :4], anchors)

    def decode_keypoints(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Decode the keypoints; see `BoxCoder.decode_keypoints`."""
        centers = box_ops.to_centers(anchors)
        shape = tf.concat([tf.shape(codes)[:-1], [self.num_keypoints, 2]], axis=0)
        shifts = tf.reshape(codes[..., 4:], shape) / tf.constant(
            [self.box_coder.y_scale, self.box_coder.x_scale]
        )
        return shifts * centers[..., tf.newaxis, 2:] + centers[..., tf.newaxis, :2]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanStddevBoxCoder(BoxesAlone):
    """Codes (box - anchor) / stddev, coordinate by coordinate.

    MultiBox, https://arxiv.org/abs/1312.2249.

    Attributes:
        stddev: standard deviation of every coordinate, in the unit of the boxes.
    """

    stddev: float

    code_size = 4

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor, keypoints: tf.Tensor | None = None) -> tf.Tensor:
        """Encode boxes, float32 [..., A, 4]; see `BoxCoder.encode`."""
        return (boxes - anchors) / self.stddev

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Decode boxes, which untrained codes may invert; see `BoxCoder.decode`."""
        return codes * self.stddev + anchors


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquareBoxCoder(BoxesAlone):
    """Codes (ty, tx, tl): shifts in anchor lengths and log length ratio, each times its scale.

    From the Object Detection API, without a paper. The length of a box is the side of the square of equal
    area, so decoded boxes are squares.

    Attributes:
        y_scale: factor of the vertical shift.
        x_scale: factor of the horizontal shift.
        length_scale: factor of the log length ratio.
    """

    y_scale: float
    x_scale: float
    length_scale: float

    code_size = 3

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor, keypoints: tf.Tensor | None = None) -> tf.Tensor:
        """Encode boxes, float32 [..., A, 3], (ty, tx, tl); see `BoxCoder.encode`."""
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
        """Decode square boxes; see `BoxCoder.decode`."""
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
