"""Counts of a split's content, which add up over its shards."""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from detection_core.datasets.annotated_images import AnnotatedObject
from detection_core.datasets.box_counter import BoxCounter
from detection_core.datasets.encoding import CheckedExample

BOX_SIDES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
"""Upper edges of the histogram of box sizes, as a fraction of the image's side."""

# The last edge is 1.0, which a division may pass by a rounding error.
_SIDE_NAMES = (*map(str, BOX_SIDES), str(BOX_SIDES[-1]))
_AREA_NAMES, _AREAS = ("small", "medium", "large"), (32**2, 96**2)
_CHUNK = 4096
_RANGES = ("width", "height", "objects_per_image")
_TOTALS = (
    "images",
    "empty_images",
    "converted_images",
    "decoded_images",
    "turned_images",
    "annotated_as_stored",
    "passed_through",
    "image_bytes",
    "objects",
    "clipped_boxes",
)
_CROWD = operator.itemgetter(AnnotatedObject._fields.index("crowd"))
_SAID = operator.itemgetter(
    *(AnnotatedObject._fields.index(name) for name in ("name", "area", "crowd", "difficult", "truncated"))
)


class Counts:
    """Counts by name, and ranges of measures.

    Examples are added up some thousands at a time, as to change thirty numbers for each would take as long as
    to encode it.

    Attributes:
        digests: beginnings of the images' SHA-256, to find images that two splits share.
        boxes: their sizes, aspects and places.
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
        """Table name to counter; `total` holds the plain counts."""
        self._count()
        return self._counts

    @property
    def ranges(self) -> dict[str, list[float]]:
        """Measure to [count, sum, least, most]."""
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
        self._images.append(
            (
                1,
                not objects,
                example.converted,
                example.decoded,
                example.turned,
                example.annotated_as_stored,
                example.passed_through,
                len(image.data),
                len(objects),
                example.clipped,
                image.width,
                image.height,
            )
        )
        self._formats.append(image.format)
        self._objects += map(_SAID, objects)
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
        """Count the objects that wait, with the pixels of the image of each."""
        names, areas, *flags = zip(*self._objects, strict=True)
        total = self._counts["total"]
        for name, column in zip(("crowd", "difficult", "truncated"), flags, strict=True):
            total[name] += sum(filter(None, column))
        self._counts["classes"].update(names)
        xmin, ymin, xmax, ymax = np.array(self._boxes, np.float64).T
        boxes = (xmax - xmin) * (ymax - ymin)
        given: np.ndarray = np.array(areas, np.float64)
        self._histogram("box_sides", _SIDE_NAMES, _bins(np.sqrt(boxes / pixels), BOX_SIDES, "left"))
        self._histogram("box_areas", _AREA_NAMES, _bins(np.where(given == 0, boxes, given), _AREAS, "right"))

    def _histogram(self, table: str, names: tuple[str, ...], bins: np.ndarray) -> None:
        for name, count in zip(names, np.bincount(bins, minlength=len(names)).tolist(), strict=True):
            if count:
                self._counts[table][name] += count

    def _range(self, name: str, more: list[float]) -> None:
        count, total, least, most = more
        known = self._ranges.setdefault(name, [0, 0, least, most])
        self._ranges[name] = [known[0] + count, known[1] + total, min(known[2], least), max(known[3], most)]

    def merge(self, other: Counts) -> None:
        """Add other counts to this one."""
        self._count()
        for table, counter in other.counts.items():
            self._counts[table].update(counter)
        for name, more in other.ranges.items():
            self._range(name, more)
        self.digests += other.digests
        self.boxes.merge(other.boxes)


def _bins(values: np.ndarray, edges: Sequence[float], side: Literal["left", "right"]) -> np.ndarray:
    return np.asarray(np.searchsorted(np.asarray(edges), values, side=side))
