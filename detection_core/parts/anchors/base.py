"""Protocol of anchor generators, and the tiling that all of them share.

Anchors of a map are ordered by row, column, then anchor of one location.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.ops import boxes as box_ops

# Rows and columns of one feature map.
MapShape = tuple[int, int]
# Height and width of one anchor, in the unit of the strides.
Size = tuple[float, float]


class AnchorGenerator(Protocol):
    """Generates the anchors of the feature maps of one image size."""

    @property
    def normalised(self) -> bool:
        """Whether anchors are fractions of the image, rather than pixels."""
        ...

    def num_anchors_per_location(self) -> list[int]:
        """Return the number of anchors per location of each feature map."""
        ...

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
        ...


def size_of(scale: float, aspect_ratio: float) -> Size:
    """Return height and width for a scale (square root of area) and an aspect ratio (width over height)."""
    root = math.sqrt(aspect_ratio)
    return scale / root, scale * root


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


def check_map_count(found: int, expected: int) -> None:
    """Raise a ModelError if the network's number of feature maps differs from the generator's."""
    if found != expected:
        raise ModelError(
            f"expected {expected} feature maps, as the anchor generator describes, found {found}; make the "
            "levels (num_layers, min_level and max_level, or anchor_grid) of generator and extractor equal"
        )
