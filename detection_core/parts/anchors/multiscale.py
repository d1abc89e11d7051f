"""Anchors of RetinaNet and EfficientDet: sizes in proportion to the stride of each pyramid level."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from detection_core.ops import boxes as box_ops
from detection_core.parts.anchors.base import MapShape, Size, check_map_count, size_of, tile


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiscaleAnchorOptions:
    """How to choose the anchors of each level.

    Attributes:
        min_level: finest level; level l has stride 2^l pixels.
        max_level: coarsest level, included.
        anchor_scale: side of the smallest square anchor, in strides.
        aspect_ratios: width over height.
        scales_per_octave: sizes between one level and the next, evenly spaced in the logarithm.
        normalize_coordinates: whether anchors are fractions of the image, rather than pixels.
    """

    min_level: int
    max_level: int
    anchor_scale: float
    aspect_ratios: tuple[float, ...]
    scales_per_octave: int
    normalize_coordinates: bool


class MultiscaleAnchorGenerator:
    """Tiles each pyramid level with the same anchors, scaled to its stride.

    RetinaNet, https://arxiv.org/abs/1708.02002.
    """

    def __init__(self, options: MultiscaleAnchorOptions) -> None:
        self.options = options
        octave = [2.0 ** (step / options.scales_per_octave) for step in range(options.scales_per_octave)]
        self._unit_sizes = [
            size_of(options.anchor_scale * scale, ratio)
            for ratio in options.aspect_ratios
            for scale in octave
        ]

    @property
    def normalised(self) -> bool:
        """Whether anchors are fractions of the image, rather than pixels."""
        return self.options.normalize_coordinates

    def num_anchors_per_location(self) -> list[int]:
        """Count the anchors that each cell of each feature map has."""
        levels = self.options.max_level - self.options.min_level + 1
        return [len(self._unit_sizes)] * levels

    def generate(
        self, feature_map_shapes: Sequence[MapShape], image_height: int, image_width: int
    ) -> list[tf.Tensor]:
        """Lay the anchors of every feature map, normalised or in pixels; see `AnchorGenerator.generate`.

        Height and width 1 stand for an unknown size, which only anchors in pixels may have.

        Raises:
            ModelError: when the number of maps is not the number of levels.
            ValueError: when anchors are normalised and the image size is unknown.
        """
        check_map_count(len(feature_map_shapes), self.options.max_level - self.options.min_level + 1)
        if self.normalised and _is_one(image_height) and _is_one(image_width):
            raise ValueError("normalised anchors need the image size, found height 1 and width 1")
        anchors = []
        for level, shape in enumerate(feature_map_shapes, self.options.min_level):
            stride = float(2**level)
            sizes: list[Size] = [(height * stride, width * stride) for height, width in self._unit_sizes]
            offset = (_offset(image_height, stride), _offset(image_width, stride))
            tiled = tile(shape, sizes, stride=(stride, stride), offset=offset)
            anchors.append(self._to_unit(tiled, image_height, image_width))
        return anchors

    def _to_unit(self, anchors: tf.Tensor, image_height: int, image_width: int) -> tf.Tensor:
        if not self.normalised:
            return anchors
        height, width = tf.cast(image_height, tf.float32), tf.cast(image_width, tf.float32)
        return box_ops.scale(anchors, 1.0 / height, 1.0 / width)


def _is_one(size: int) -> bool:
    return isinstance(size, int) and size == 1


def _offset(image_size: int, stride: float) -> tf.Tensor:
    """Centre of the first cell: half a stride where strides divide the image (or its size is unknown)."""
    size = tf.cast(image_size, tf.float32)
    half = tf.logical_or(tf.equal(tf.math.floormod(size, stride), 0.0), tf.equal(size, 1.0))
    return tf.where(half, stride / 2.0, 0.0)
