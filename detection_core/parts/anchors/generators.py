"""Anchor generators of Faster R-CNN, RetinaNet and SSD, and one with a grid for each level."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import tensorflow as tf

from detection_core.ops import boxes as box_ops
from detection_core.parts.anchors.base import MapShape, Size, check_map_count, size_of, tile


@dataclasses.dataclass(frozen=True, kw_only=True)
class GridAnchorOptions:
    """Options of `GridAnchorGenerator`.

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
        """Return the number of anchors per location of each feature map."""
        return [len(self._sizes)]

    def generate(
        self, feature_map_shapes: Sequence[MapShape], image_height: int, image_width: int
    ) -> list[tf.Tensor]:
        """Generate the anchors of the single feature map, in pixels; see `AnchorGenerator.generate`.

        Raises:
            ModelError: when there is not exactly one map.
        """
        del image_height, image_width
        check_map_count(len(feature_map_shapes), 1)
        options = self.options
        return [tile(feature_map_shapes[0], self._sizes, stride=options.stride, offset=options.offset)]


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
        """Return the number of anchors per location of each feature map."""
        return [len(grid.base_sizes) for grid in self.grids]

    def generate(
        self, feature_map_shapes: Sequence[MapShape], image_height: int, image_width: int
    ) -> list[tf.Tensor]:
        """Generate the anchors of every feature map, normalised or in pixels; see `AnchorGenerator.generate`.

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiscaleAnchorOptions:
    """Options of `MultiscaleAnchorGenerator`.

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
        """Return the number of anchors per location of each feature map."""
        levels = self.options.max_level - self.options.min_level + 1
        return [len(self._unit_sizes)] * levels

    def generate(
        self, feature_map_shapes: Sequence[MapShape], image_height: int, image_width: int
    ) -> list[tf.Tensor]:
        """Generate the anchors of every feature map, normalised or in pixels; see `AnchorGenerator.generate`.

        Height and width 1 mean an unknown size, which is valid for anchors in pixels only.

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
    """Return the first centre: half a stride if strides divide the image or its size is unknown."""
    size = tf.cast(image_size, tf.float32)
    half = tf.logical_or(tf.equal(tf.math.floormod(size, stride), 0.0), tf.equal(size, 1.0))
    return tf.where(half, stride / 2.0, 0.0)


# Scale and aspect ratio of the reduced set in the lowest layer: the first is small for every min_scale.
REDUCED_SCALE = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class SsdAnchorOptions:
    """Options of `SsdAnchorGenerator`.

    Attributes:
        num_layers: number of feature maps.
        min_scale: scale of the first layer, as a fraction of the image's shorter side.
        max_scale: scale of the last layer.
        scales: scale of each layer; replaces min_scale and max_scale when not empty.
        aspect_ratios: width over height of the anchors with the layer's scale.
        interpolated_scale_aspect_ratio: aspect ratio of one more anchor between this layer's scale and the
            next one's; 0 omits it.
        reduce_boxes_in_lowest_layer: whether the first layer has three fixed anchors instead.
        base_anchor_height: height of scale 1, as a fraction of the image's shorter side.
        base_anchor_width: width of scale 1, likewise.
        strides: (y, x) pixels between cells of each layer; empty: the image size divided by the map size.
        offsets: (y, x) pixels of the first centre of each layer; empty: half a stride.
    """

    num_layers: int
    min_scale: float
    max_scale: float
    scales: tuple[float, ...]
    aspect_ratios: tuple[float, ...]
    interpolated_scale_aspect_ratio: float
    reduce_boxes_in_lowest_layer: bool
    base_anchor_height: float
    base_anchor_width: float
    strides: tuple[tuple[float, float], ...] = ()
    offsets: tuple[tuple[float, float], ...] = ()


class SsdAnchorGenerator:
    """Tiles each layer with anchors of another scale.

    SSD, https://arxiv.org/abs/1512.02325.
    """

    def __init__(self, options: SsdAnchorOptions) -> None:
        self.options = options
        self._specs = _layer_specs(options)

    @property
    def normalised(self) -> bool:
        """Whether anchors are fractions of the image, rather than pixels."""
        return True

    def num_anchors_per_location(self) -> list[int]:
        """Return the number of anchors per location of each feature map."""
        return [len(specs) for specs in self._specs]

    def generate(
        self, feature_map_shapes: Sequence[MapShape], image_height: int, image_width: int
    ) -> list[tf.Tensor]:
        """Generate the anchors of every feature map, normalised; see `AnchorGenerator.generate`.

        Raises:
            ModelError: when the number of maps is not num_layers.
        """
        check_map_count(len(feature_map_shapes), len(self._specs))
        height, width = tf.cast(image_height, tf.float32), tf.cast(image_width, tf.float32)
        shorter = tf.minimum(height, width)
        # Scales refer to the shorter side, so that aspect ratio 1 is square on the image.
        base_height = self.options.base_anchor_height * shorter / height
        base_width = self.options.base_anchor_width * shorter / width
        anchors = []
        for layer, (shape, specs) in enumerate(zip(feature_map_shapes, self._specs, strict=True)):
            stride = self._stride(layer, shape, (height, width))
            sizes = [(size[0] * base_height, size[1] * base_width) for size in specs]
            offset = self._offset(layer, stride, (height, width))
            anchors.append(tile(shape, sizes, stride=stride, offset=offset))
        return anchors

    def _stride(
        self, layer: int, shape: MapShape, image: tuple[tf.Tensor, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        if not self.options.strides:
            return 1.0 / tf.cast(shape[0], tf.float32), 1.0 / tf.cast(shape[1], tf.float32)
        y, x = self.options.strides[layer]
        return y / image[0], x / image[1]

    def _offset(
        self, layer: int, stride: tuple[tf.Tensor, tf.Tensor], image: tuple[tf.Tensor, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        if not self.options.offsets:
            return 0.5 * stride[0], 0.5 * stride[1]
        y, x = self.options.offsets[layer]
        return y / image[0], x / image[1]


def _layer_scales(options: SsdAnchorOptions) -> list[float]:
    """Return the scale of every layer, and one more, which only the interpolated anchor uses."""
    if options.scales:
        return [*options.scales, 1.0]
    # A single layer takes min_scale, as nothing can be interpolated.
    steps = max(options.num_layers - 1, 1)
    span = options.max_scale - options.min_scale
    return [options.min_scale + span * layer / steps for layer in range(options.num_layers)] + [1.0]


def _layer_specs(options: SsdAnchorOptions) -> list[list[Size]]:
    """Return height and width of each anchor of a cell, in units of the base anchor, per layer."""
    scales = _layer_scales(options)
    layers = []
    for layer in range(options.num_layers):
        scale = scales[layer]
        if layer == 0 and options.reduce_boxes_in_lowest_layer:
            layers.append([size_of(REDUCED_SCALE, 1.0), size_of(scale, 2.0), size_of(scale, 0.5)])
            continue
        sizes = [size_of(scale, ratio) for ratio in options.aspect_ratios]
        if options.interpolated_scale_aspect_ratio > 0.0:
            between = math.sqrt(scale * scales[layer + 1])
            sizes.append(size_of(between, options.interpolated_scale_aspect_ratio))
        layers.append(sizes)
    return layers
