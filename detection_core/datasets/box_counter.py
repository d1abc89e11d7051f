"""Counts boxes by size, aspect, number and place, for `artifacts.box_profile`.

Every number is a sum over images, so that the counts of parts add up to those of the whole in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.artifacts.box_profile import BoxProfile, Histogram, SizeGrid

SIDES = tuple(2.0 ** (exponent / 2) for exponent in range(-15, 1))
"""Upper edges: height or width of a box as a fraction of the image's, two bins an octave."""

ASPECTS = tuple(2.0 ** (exponent / 2) for exponent in range(-6, 8))
"""Upper edges: width over height."""

SIDES_PX = tuple(2.0 ** (exponent / 2) for exponent in range(4, 23))
"""Upper edges: root of the area, pixels."""

PER_IMAGE = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""Upper edges: boxes of an image; the last bin holds all above as well."""

GRID = 16
"""Rows and columns of the grid of places."""

_CHUNK = 4096
_SHAPES = {
    "sizes": (len(SIDES), len(SIDES)),
    "aspects": (len(ASPECTS),),
    "sides_px": (len(SIDES_PX),),
    "per_image": (len(PER_IMAGE),),
    "centres": (GRID, GRID),
    # Differences along both axes: a box changes four numbers, whatever it covers.
    "edges": (GRID + 1, GRID + 1),
}

Box = tuple[float, float, float, float]


class BoxCounter:
    """Counts the boxes of a split.

    Args:
        state: what `state` of another one gave; None: nothing is counted yet.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self._counts: dict[str, np.ndarray] = {
            name: np.array(state[name], np.int64) if state else np.zeros(shape, np.int64)
            for name, shape in _SHAPES.items()
        }
        self._boxes: list[Box] = []
        self._images: list[tuple[int, int, int]] = []

    def add(self, boxes: Sequence[Box], width: int, height: int) -> None:
        """Count the boxes of an image.

        Args:
            boxes: (xmin, ymin, xmax, ymax) in pixels, none of them round a crowd.
            width: of the image, pixels.
            height: likewise.
        """
        self._boxes += boxes
        self._images.append((len(boxes), width, height))
        if len(self._boxes) + len(self._images) > _CHUNK:
            self._count()

    def merge(self, other: BoxCounter) -> None:
        """Add other counts to these."""
        other._count()
        for name, counts in other._counts.items():
            self._counts[name] += counts

    def state(self) -> dict[str, Any]:
        """Return the constructor's argument as JSON values."""
        self._count()
        return {name: counts.tolist() for name, counts in self._counts.items()}

    def profile(self) -> BoxProfile:
        """Return what was counted."""
        self._count()
        counts = {name: table.tolist() for name, table in self._counts.items()}
        coverage = self._counts["edges"].cumsum(axis=0).cumsum(axis=1)[:GRID, :GRID]
        return BoxProfile(
            boxes=sum(counts["aspects"]),
            sizes=SizeGrid(up_to=list(SIDES), counts=counts["sizes"]),
            aspects=Histogram(up_to=list(ASPECTS), counts=counts["aspects"]),
            sides_px=Histogram(up_to=list(SIDES_PX), counts=counts["sides_px"]),
            per_image=Histogram(up_to=list(PER_IMAGE), counts=counts["per_image"]),
            centres=counts["centres"],
            coverage=coverage.tolist(),
        )

    def _count(self) -> None:
        images: np.ndarray = np.array(self._images, np.float64).reshape(-1, 3)
        boxes: np.ndarray = np.array(self._boxes, np.float64).reshape(-1, 4)
        self._images, self._boxes = [], []
        if not len(images):
            return
        self._add("per_image", _bins(images[:, 0], PER_IMAGE))
        if not len(boxes):
            return
        of_image = np.repeat(images[:, 1:], images[:, 0].astype(np.int64), axis=0)
        corners = boxes.reshape(-1, 2, 2)  # (first, last) by (x, y)
        sides = np.maximum(corners[:, 1] - corners[:, 0], 1e-9)
        width, height = (sides / of_image).T
        self._add("sizes", _bins(height, SIDES), _bins(width, SIDES))
        self._add("aspects", _bins(sides[:, 0] / sides[:, 1], ASPECTS))
        self._add("sides_px", _bins(np.sqrt(sides.prod(axis=1)), SIDES_PX))
        x, y = (corners.mean(axis=1) / of_image * GRID).T
        self._add("centres", _cells(y, GRID - 1), _cells(x, GRID - 1))
        # Of the cells' middles at (i + 1/2) / GRID, those from `first` on and before `last` are covered.
        first, last = (np.ceil(corners[:, edge] / of_image * GRID - 0.5) for edge in (0, 1))
        (left, top), (right, bottom) = (_cells(edge.T, GRID) for edge in (first, last))
        for rows, columns, sign in ((top, left, 1), (top, right, -1), (bottom, left, -1), (bottom, right, 1)):
            self._add("edges", rows, columns, sign=sign)

    def _add(self, name: str, *indices: np.ndarray, sign: int = 1) -> None:
        table = self._counts[name]
        flat = np.ravel_multi_index(indices, table.shape)
        table += sign * np.bincount(flat, minlength=table.size).reshape(table.shape)


def _bins(values: np.ndarray, up_to: Sequence[float]) -> np.ndarray:
    return np.minimum(np.searchsorted(np.asarray(up_to), values, side="left"), len(up_to) - 1)


def _cells(values: np.ndarray, last: int) -> np.ndarray:
    return np.clip(values, 0, last).astype(np.int64)
