"""Batches of images, boxes and anchors, and numpy's answers to questions about boxes."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.parts.anchors.choice import AnchorMap
from detection_core.structures import Images


def images_of(pixels: Any, true_sizes: Any = None) -> Images:
    """Make a batch of pixels [B, H, W, 3]; images fill it unless their sizes are given."""
    sizes = tf.constant(true_sizes if true_sizes is not None else [list(pixels.shape[1:3])] * len(pixels))
    return Images(tf.constant(pixels, tf.float32), sizes, sizes, tf.constant([""] * len(pixels)))


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    """Draw pixels of 0 to 255 as float32."""
    return np.random.RandomState(seed).uniform(0, 255, shape).astype(np.float32)


def random_boxes(
    rng: np.random.Generator, *shape: int, low: float = 0.0, high: float = 0.7, sides: Any = (0.02, 0.3)
) -> np.ndarray:
    """Draw normalised boxes, float32 [*shape, 4]: a corner between low and high, and sides."""
    corners = rng.uniform(low, high, (*shape, 2))
    return np.concatenate([corners, corners + rng.uniform(*sides, (*shape, 2))], -1).astype(np.float32)


def slow_iou(a: Any, b: Any) -> float:
    """Intersection over union of two boxes, 0 where they have no area."""
    common = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common
    return common / union if union > 0 else 0.0


def lay_anchors(maps: Iterable[AnchorMap]) -> np.ndarray:
    """Return all anchors as (ymin, xmin, ymax, xmax) in pixels."""
    boxes = []
    for anchors in maps:
        for row in range(anchors.shape[0]):
            for column in range(anchors.shape[1]):
                y = anchors.offset[0] + row * anchors.stride[0]
                x = anchors.offset[1] + column * anchors.stride[1]
                boxes += [(y - h / 2, x - w / 2, y + h / 2, x + w / 2) for h, w in anchors.sizes]
    return np.array(boxes)


def boxes_like(
    side: float, ratio: float, size: tuple[int, int], *, count: int = 300, spread: float = 0.05
) -> np.ndarray:
    """Draw normalised boxes of about one size in pixels, and width to height, all over an image."""
    rng = np.random.default_rng(1)
    sides = side * np.exp(rng.normal(0, spread, (count, 1))) * np.array([[ratio**-0.5, ratio**0.5]])
    corners = rng.uniform(0, 1, (count, 2)) * (np.array(size) - sides)
    return np.concatenate([corners, corners + sides], axis=1) / np.array([*size, *size])
