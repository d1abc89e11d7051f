"""Anchors of Faster R-CNN: every scale and aspect ratio at each cell of one feature map, in pixels."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from detection_core.parts.anchors.base import MapShape, check_map_count, size_of, tile


@dataclasses.dataclass(frozen=True, kw_only=True)
class GridAnchorOptions:
    """How to choose the anchors.

    Attributes:
        height: height of scale 1 and aspect ratio 1, pixels.
        width: width of scale 1 and aspect ratio 1, pixels.
        stride: (y, x) pixels between cells.
        offset: (y, x) pixels of the first centre.
        scales: factors of the base size.
        aspect_ratios: width over height.
    """

    height: float
    width: float
    stride: tuple[float, float]
    offset: tuple[float, float]
    scales: tuple[float, ...]
    aspect_ratios: tuple[float, ...]


class GridAnchorGenerator:
    """Tiles one feature map with every pair of scale and aspect ratio.

    Faster R-CNN, https://arxiv.org/abs/1506.01497.
    """

    def __init__(self, options: GridAnchorOptions) -> None:
        self.options = options
        pairs = [size_of(scale, ratio) for ratio in options.aspect_ratios for scale in options.scales]
        self._sizes = [(height * options.height, width * options.width) for height, width in pairs]

    @property
    def normalised(self) -> bool:
        """Whether anchors are fractions of the image, rather than pixels."""
        return False

    def num_anchors_per_location(self) -> list[int]:
        """Count the anchors that each cell of each feature map has."""
        return [len(self._sizes)]

    def generate(
        self, feature_map_shapes: Sequence[MapShape], image_height: int, image_width: int
    ) -> list[tf.Tensor]:
        """Lay the anchors of the one feature map, in pixels; see `AnchorGenerator.generate`.

        Raises:
            ModelError: when there is not exactly one map.
        """
        del image_height, image_width
        check_map_count(len(feature_map_shapes), 1)
        options = self.options
        return [tile(feature_map_shapes[0], self._sizes, stride=options.stride, offset=options.offset)]
