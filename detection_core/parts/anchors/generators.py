"""Anchor generators of Faster R-CNN, RetinaNet and SSD, and one with a grid for each level.

Anchors of a map are ordered by row, column, then anchor of one location.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.ops import boxes as box_ops
from detection_core.parts.anchors.choice import AnchorGrid, Size, size_of, sizes_by_layer

# Rows and columns of one feature map.
MapShape = tuple[int, int]


class AnchorGenerator(Protocol):
    """Generates the anchors of one image size."""

    @property
    def normalised(self) -> bool:
        """Whether anchors are fractions of the image."""

    def num_anchors_per_location(self) -> list[int]:
        """Return the number of anchors per location of each feature map."""

    def generate(
        self, feature_map_shapes: Sequence[MapShape], image_height: int, image_width: int
    ) -> list[tf.Tensor]:
        """Generate the anchors of every feature map.

        Args:
            feature_map_shapes: rows and columns of each map, numbers or int32 scalars.
            image_height: rows of the (padded) network input, a number or an int32 scalar.
            image_width: its columns.

        Returns:
            One float32 [A_l, 4] per map, not clipped to the image.

        Raises:
            ModelError: when the number of maps is not the one that the generator was made for.
        """


def tile(
    shape: MapShape, sizes: Sequence[Size], *, stride: Sequence[float], offset: Sequence[float]
) -> tf.Tensor:
    """Repeat anchors of given sizes at every cell of a feature map.

    Args:
        shape: rows and columns of the map.
        sizes: height and width of each of the N anchors of one cell; numbers or float32 scalars.
        stride: distance of neighbouring centres, (y, x).
        offset: centre of the first cell, (y, x).

    Returns:
        float32 [rows * columns * N, 4], in the unit of `sizes`, `stride` and `offset`.
    """
    rows, columns = shape
    y = tf.range(tf.cast(rows, tf.float32)) * stride[0] + offset[0]
    x = tf.range(tf.cast(columns, tf.float32)) * stride[1] + offset[1]
    y_grid, x_grid = tf.meshgrid(y, x, indexing="ij")
    centers = tf.reshape(tf.stack([y_grid, x_grid], axis=-1), [-1, 1, 2])
    extents = tf.reshape(tf.convert_to_tensor(list(sizes), tf.float32), [1, len(sizes), 2])
    cells = tf.shape(centers)[0]
    pairs = [tf.tile(centers, [1, len(sizes), 1]), tf.tile(extents, [cells, 1, 1])]
    return tf.reshape(box_ops.from_centers(tf.concat(pairs, axis=-1)), [-1, 4])


def to_unit(maps: Sequence[tf.Tensor], image_height: int, image_width: int) -> list[tf.Tensor]:
    """Convert the anchors of each map from pixels to fractions of an image."""
    height, width = tf.cast(image_height, tf.float32), tf.cast(image_width, tf.float32)
    return [box_ops.scale(anchors, 1.0 / height, 1.0 / width) for anchors in maps]


def check_map_count(found: int, expected: int) -> None:
    """Raise a ModelError if the network's number of feature maps differs from the generator's."""
    if found != expected:
        raise ModelError(
            f"expected {expected} feature maps, as the anchor generator describes, found {found}; make the "
            "levels (num_layers, min_level and max_level, or anchor_grid) of generator and extractor equal"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlexibleGridAnchorGenerator:
    """Tiles each feature map with its own list of anchors."""

    grids: tuple[AnchorGrid, ...]
    normalised: bool

    def num_anchors_per_location(self) -> list[int]:
        """Return the number of anchors per location of each feature map."""
        return [len(grid.sizes) for grid in self.grids]

    def generate(
        self, feature_map_shapes: Sequence[MapShape], image_height: int, image_width: int
    ) -> list[tf.Tensor]:
        """Generate the anchors of every map, normalised or in pixels; ModelError without a grid for each."""
        check_map_count(len(feature_map_shapes), len(self.grids))
        anchors = [
            tile(shape, grid.sizes, stride=grid.stride, offset=grid.offset)
            for shape, grid in zip(feature_map_shapes, self.grids, strict=True)
        ]
        return to_unit(anchors, image_height, image_width) if self.normalised else anchors


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiscaleAnchorGenerator:
    """Tiles each pyramid level with the same anchors, scaled to its stride.

    RetinaNet, https://arxiv.org/abs/1708.02002.

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

    @property
    def normalised(self) -> bool:
        """Whether anchors are fractions of the image."""
        return self.normalize_coordinates

    def num_anchors_per_location(self) -> list[int]:
        """Return the number of anchors per location of each feature map."""
        return [len(self.aspect_ratios) * self.scales_per_octave] * (self.max_level - self.min_level + 1)

    def generate(
        self, feature_map_shapes: Sequence[MapShape], image_height: int, image_width: int
    ) -> list[tf.Tensor]:
        """Generate the anchors of every feature map, normalised or in pixels; see `AnchorGenerator.generate`.

        Height and width 1 mean an unknown size, which is valid for anchors in pixels only.

        Raises:
            ModelError: when the number of maps is not the number of levels.
            ValueError: when anchors are normalised and the image size is unknown.
        """
        check_map_count(len(feature_map_shapes), self.max_level - self.min_level + 1)
        if self.normalised and _is_one(image_height) and _is_one(image_width):
            raise ValueError("normalised anchors need the image size, found height 1 and width 1")
        octave = [2.0 ** (step / self.scales_per_octave) for step in range(self.scales_per_octave)]
        units = [size_of(self.anchor_scale * scale, r) for r in self.aspect_ratios for scale in octave]
        anchors = []
        for level, shape in enumerate(feature_map_shapes, self.min_level):
            stride = float(2**level)
            sizes: list[Size] = [(height * stride, width * stride) for height, width in units]
            offset = (_offset(image_height, stride), _offset(image_width, stride))
            anchors.append(tile(shape, sizes, stride=(stride, stride), offset=offset))
        return to_unit(anchors, image_height, image_width) if self.normalised else anchors


def _is_one(size: int) -> bool:
    return isinstance(size, int) and size == 1


def _offset(image_size: int, stride: float) -> tf.Tensor:
    """Return the first centre: half a stride if strides divide the image or its size is unknown."""
    size = tf.cast(image_size, tf.float32)
    half = tf.logical_or(tf.equal(tf.math.floormod(size, stride), 0.0), tf.equal(size, 1.0))
    return tf.where(half, stride / 2.0, 0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SsdAnchorGenerator:
    """Tiles each layer with anchors of another scale. SSD, https://arxiv.org/abs/1512.02325.

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

    normalised = True

    @functools.cached_property
    def _specs(self) -> list[list[Size]]:
        return sizes_by_layer(self, self.num_layers)

    def num_anchors_per_location(self) -> list[int]:
        """Return the number of anchors per location of each feature map."""
        return [len(specs) for specs in self._specs]

    def generate(
        self, feature_map_shapes: Sequence[MapShape], image_height: int, image_width: int
    ) -> list[tf.Tensor]:
        """Generate the anchors of every map, normalised; ModelError when there are not num_layers maps."""
        check_map_count(len(feature_map_shapes), len(self._specs))
        height, width = tf.cast(image_height, tf.float32), tf.cast(image_width, tf.float32)
        shorter = tf.minimum(height, width)
        # Scales refer to the shorter side, so that aspect ratio 1 is square on the image.
        base_height = self.base_anchor_height * shorter / height
        base_width = self.base_anchor_width * shorter / width
        anchors = []
        for layer, (shape, specs) in enumerate(zip(feature_map_shapes, self._specs, strict=True)):
            stride = 1.0 / tf.cast(shape[0], tf.float32), 1.0 / tf.cast(shape[1], tf.float32)
            if self.strides:
                stride = self.strides[layer][0] / height, self.strides[layer][1] / width
            offset = 0.5 * stride[0], 0.5 * stride[1]
            if self.offsets:
                offset = self.offsets[layer][0] / height, self.offsets[layer][1] / width
            sizes = [(size[0] * base_height, size[1] * base_width) for size in specs]
            anchors.append(tile(shape, sizes, stride=stride, offset=offset))
        return anchors
