"""Statistics of a split, which can be merged over its shards."""

import operator
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.artifacts.box_profile import BoxProfile, Histogram, SizeGrid
from detection_core.datasets.annotated_images import Box
from detection_core.datasets.encoding import CheckedExample

SIDES = tuple(2.0 ** (exponent / 2) for exponent in range(-15, 1))
"""Upper edges of the bins: box height or width as a fraction of the image's, two bins per octave."""

ASPECTS = tuple(2.0 ** (exponent / 2) for exponent in range(-6, 8))
"""Upper edges of the bins: width divided by height."""

SIDES_PX = tuple(2.0 ** (exponent / 2) for exponent in range(4, 23))
"""Upper edges of the bins: square root of the area, in pixels."""

PER_IMAGE = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""Upper edges of the bins: boxes per image; the last bin also holds all larger counts."""

GRID = 16
"""Rows and columns of the grid of positions."""

_CHUNK = 4096
_SHAPES = {
    "sizes": (len(SIDES), len(SIDES)),
    "aspects": (len(ASPECTS),),
    "sides_px": (len(SIDES_PX),),
    "per_image": (len(PER_IMAGE),),
    "centres": (GRID, GRID),
    # Use differences along both axes: a box then changes four numbers, whatever its size.
    "edges": (GRID + 1, GRID + 1),
}


class BoxCounter:
    """Counts the boxes of a split, starting with another counter's `state`."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self._counts: dict[str, np.ndarray] = {
            name: np.array(state[name], np.int64) if state else np.zeros(shape, np.int64)
            for name, shape in _SHAPES.items()
        }
        self._boxes: list[Box] = []
        self._images: list[tuple[int, int, int]] = []

    def add(self, boxes: Sequence[Box], width: int, height: int) -> None:
        """Count an image's boxes, (xmin, ymin, xmax, ymax) in pixels, without crowd boxes."""
        self._boxes += boxes
        self._images.append((len(boxes), width, height))
        if len(self._boxes) + len(self._images) > _CHUNK:
            self._count()

    def merge(self, other: "BoxCounter") -> None:
        """Add the counts of another counter."""
        other._count()
        for name, counts in other._counts.items():
            self._counts[name] += counts

    def state(self) -> dict[str, Any]:
        """Return the constructor's argument as JSON values."""
        self._count()
        return {name: counts.tolist() for name, counts in self._counts.items()}

    def profile(self) -> BoxProfile:
        """Return the counts."""
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
        # A box covers the cells whose centers, at (i + 1/2) / GRID, lie from `first` up to before `last`.
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


BOX_SIDES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
"""Upper edges of the histogram of box sizes, as a fraction of the image's side."""

_AREA_NAMES, _AREAS = ("small", "medium", "large"), (32**2, 96**2)
_RANGES = ("width", "height", "objects_per_image")
_TOTALS = (
    "images", "empty_images", "converted_images", "decoded_images", "turned_images", "annotated_as_stored",
    "passed_through", "image_bytes", "objects", "clipped_boxes",
)  # fmt: skip
_FLAGS = operator.attrgetter("converted", "decoded", "turned", "annotated_as_stored", "passed_through")
_CROWD = operator.attrgetter("crowd")
_COUNTED_FIELDS = operator.attrgetter("name", "area", "crowd", "difficult", "truncated")


class Counts:
    """Counts by name, and ranges of measures.

    Examples are counted in batches of some thousands: counting them one by one would take as long as
    encoding.

    Attributes:
        digests: prefixes of the images' SHA-256, to find images that two splits share.
        boxes: their sizes, aspect ratios and positions.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {"counts": {}, "ranges": {}, "digests": []}
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._counts.update({table: Counter(counts) for table, counts in state["counts"].items()})
        self._ranges: dict[str, list[float]] = {name: list(r) for name, r in state["ranges"].items()}
        self.digests: list[str] = list(state["digests"])
        self.boxes = BoxCounter(state.get("boxes"))
        self._forget()

    def _forget(self) -> None:
        self._images: list[tuple[int, ...]] = []
        self._formats: list[str] = []
        self._objects: list[tuple[Any, ...]] = []
        self._boxes: list[tuple[float, ...]] = []

    @property
    def counts(self) -> defaultdict[str, Counter[str]]:
        """Table name to counter; `total` holds the counts without a table."""
        self._count()
        return self._counts

    @property
    def ranges(self) -> dict[str, list[float]]:
        """Measure to [count, sum, minimum, maximum]."""
        self._count()
        return self._ranges

    def state(self) -> dict[str, Any]:
        """Return the constructor's arguments as JSON values."""
        return {
            "counts": self.counts,
            "ranges": self.ranges,
            "digests": self.digests,
            "boxes": self.boxes.state(),
        }

    def add(self, example: CheckedExample) -> None:
        """Count an example."""
        image, objects, boxes = example.image, example.objects, example.boxes
        numbers = len(image.data), len(objects), example.clipped, image.width, image.height
        self._images.append((1, not objects, *_FLAGS(example), *numbers))
        self._formats.append(image.format)
        self._objects += map(_COUNTED_FIELDS, objects)
        self._boxes += boxes
        self.digests.append(image.sha256[:16])
        if any(map(_CROWD, objects)):
            boxes = [box for box, item in zip(boxes, objects, strict=True) if not item.crowd]
        self.boxes.add(boxes, image.width, image.height)
        if len(self._images) + len(self._objects) > _CHUNK:
            self._count()

    def _count(self) -> None:
        if not self._images:
            return
        *totals, widths, heights = zip(*self._images, strict=True)
        objects = totals[_TOTALS.index("objects")]
        total = self._counts["total"]
        for name, column in zip(_TOTALS, totals, strict=True):
            total[name] += sum(column)
        self._counts["formats"].update(self._formats)
        for name, column in zip(_RANGES, (widths, heights, objects), strict=True):
            self._range(name, [len(column), sum(column), min(column), max(column)])
        if self._objects:
            pixels: np.ndarray = np.repeat(np.multiply(widths, heights, dtype=np.float64), objects)
            self._count_objects(pixels)
        self._forget()

    def _count_objects(self, pixels: np.ndarray) -> None:
        """Count the pending objects, given the number of pixels of each object's image."""
        names, areas, *flags = zip(*self._objects, strict=True)
        total = self._counts["total"]
        for name, column in zip(("crowd", "difficult", "truncated"), flags, strict=True):
            total[name] += sum(filter(None, column))
        self._counts["classes"].update(names)
        xmin, ymin, xmax, ymax = np.array(self._boxes, np.float64).T
        boxes = (xmax - xmin) * (ymax - ymin)
        given: np.ndarray = np.array(areas, np.float64)
        self._histogram("box_sides", tuple(map(str, BOX_SIDES)), _bins(np.sqrt(boxes / pixels), BOX_SIDES))
        areas = np.where(given == 0, boxes, given)
        self._histogram("box_areas", _AREA_NAMES, np.asarray(np.searchsorted(_AREAS, areas, side="right")))

    def _histogram(self, table: str, names: tuple[str, ...], bins: np.ndarray) -> None:
        for name, count in zip(names, np.bincount(bins, minlength=len(names)).tolist(), strict=True):
            if count:
                self._counts[table][name] += count

    def _range(self, name: str, more: list[float]) -> None:
        count, total, least, most = more
        known = self._ranges.setdefault(name, [0, 0, least, most])
        self._ranges[name] = [known[0] + count, known[1] + total, min(known[2], least), max(known[3], most)]

    def merge(self, other: "Counts") -> None:
        """Add the counts of another object."""
        self._count()
        for table, counter in other.counts.items():
            self._counts[table].update(counter)
        for name, more in other.ranges.items():
            self._range(name, more)
        self.digests += other.digests
        self.boxes.merge(other.boxes)
