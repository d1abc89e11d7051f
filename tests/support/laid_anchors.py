"""Anchors of maps, laid out one by one."""

from collections.abc import Iterable

import numpy as np

from detection_core.parts.anchors.choice import AnchorMap


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
