"""The coder of MultiBox: distance of each corner coordinate in units of one standard deviation."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.parts.box_coders.base import BoxesAlone


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanStddevBoxCoder(BoxesAlone):
    """Codes (box - anchor) / stddev, coordinate by coordinate.

    MultiBox, https://arxiv.org/abs/1312.2249.

    Attributes:
        stddev: standard deviation of every coordinate, in the unit of the boxes.
    """

    stddev: float

    @property
    def code_size(self) -> int:
        """Numbers per box."""
        return 4

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor, keypoints: tf.Tensor | None = None) -> tf.Tensor:
        """Write boxes relative to anchors, float32 [..., A, 4]; see `BoxCoder.encode`."""
        return (boxes - anchors) / self.stddev

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Turn codes back into boxes, inverted ones for untrained codes; see `BoxCoder.decode`."""
        return codes * self.stddev + anchors
