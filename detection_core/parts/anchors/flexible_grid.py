"""Anchors written out one by one: a list of sizes, a stride and an offset for each feature map.

A generalisation of the default boxes of SSD, https://arxiv.org/abs/1512.02325.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from detection_core.ops import boxes as box_ops
from detection_core.parts.anchors.base import MapShape, Size, check_map_count, size_of, tile


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorGrid:
    """The anchors of one feature map.

    Attributes:
        base_sizes: square root of the area of each anchor, pixels.
        aspect_ratios: width over height of each anchor, as many as base_sizes.
        stride: (y, x) pixels between cells.
        offset: (y, x) pixels of the first centre.
    """

    base_sizes: tuple[float, ...]
    aspect_ratios: tuple[float, ...]
    stride: tuple[float, float]
    offset: tuple[float, float]

    def sizes(self) -> list[Size]:
        """Height and width of each anchor of a cell, pixels."""
        return [size_of(base, ratio) for base, ratio in zip(self.base_sizes, self.aspect_ratios, strict=True)]


class FlexibleGridAnchorGenerator:
    """Tiles each feature map with its own list of anchors."""

    def __init__(self, grids: Sequence[AnchorGrid], *, normalize_coordinates: bool) -> None:
        self.grids = tuple(grids)
        self._normalise = normalize_coordinates

    @property
    def normalised(self) -> bool:
        """Whether anchors are fractions of the image, rather than pixels."""
        return self._normalise

    def num_anchors_per_location(self) -> list[int]:
        """Count the anchors that each cell of each feature map has."""
        return [len(grid.base_sizes) for grid in self.grids]

    def generate(
        self, feature_map_shapes: Sequence[MapShape], image_height: int, image_width: int
    ) -> list[tf.Tensor]:
        """Lay the anchors of every feature map, normalised or in pixels; see `AnchorGenerator.generate`.

        Raises:
            ModelError: when the number of maps is not the number of grids.
        """
        check_map_count(len(feature_map_shapes), len(self.grids))
        anchors = [
            tile(shape, grid.sizes(), stride=grid.stride, offset=grid.offset)
            for shape, grid in zip(feature_map_shapes, self.grids, strict=True)
        ]
        if not self.normalised:
            return anchors
        height, width = tf.cast(image_height, tf.float32), tf.cast(image_width, tf.float32)
        return [box_ops.scale(boxes, 1.0 / height, 1.0 / width) for boxes in anchors]
