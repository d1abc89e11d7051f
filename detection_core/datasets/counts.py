"""Counts of a split's content, which add up over its shards."""

from __future__ import annotations

import bisect
import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from detection_core.datasets.box_counter import BoxCounter
from detection_core.datasets.encoding import CheckedExample

BOX_SIDES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
"""Upper edges of the histogram of box sizes, as a fraction of the image's side."""

# The last edge is 1.0, which a division may pass by a rounding error.
_SIDE_NAMES = (*map(str, BOX_SIDES), str(BOX_SIDES[-1]))
_SMALL, _MEDIUM = 32**2, 96**2


class Counts:
    """Counts by name, and ranges of measures.

    Attributes:
        counts: table name to counter; `total` holds the plain counts.
        ranges: measure to [count, sum, least, most].
        digests: beginnings of the images' SHA-256, to find images that two splits share.
        boxes: their sizes, aspects and places.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {"counts": {}, "ranges": {}, "digests": []}
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.counts.update({table: Counter(counts) for table, counts in state["counts"].items()})
        self.ranges: dict[str, list[float]] = {name: list(r) for name, r in state["ranges"].items()}
        self.digests: list[str] = list(state["digests"])
        self.boxes = BoxCounter(state.get("boxes"))

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
        image, total = example.image, self.counts["total"]
        total["images"] += 1
        total["empty_images"] += not example.objects
        total["converted_images"] += example.converted
        total["decoded_images"] += example.decoded
        total["turned_images"] += example.turned
        total["annotated_as_stored"] += example.annotated_as_stored
        total["passed_through"] += example.passed_through
        total["image_bytes"] += len(image.data)
        total["objects"] += len(example.objects)
        total["clipped_boxes"] += example.clipped
        self.counts["formats"][image.format] += 1
        self._range("width", image.width)
        self._range("height", image.height)
        self._range("objects_per_image", len(example.objects))
        self.digests.append(image.sha256[:16])
        pairs = zip(example.boxes, example.objects, strict=True)
        self.boxes.add([box for box, item in pairs if not item.crowd], image.width, image.height)
        if example.objects:
            self._add_objects(example)

    def _add_objects(self, example: CheckedExample) -> None:
        classes, sides, areas = (self.counts[table] for table in ("classes", "box_sides", "box_areas"))
        pixels = example.image.width * example.image.height
        crowd = difficult = truncated = 0
        for item, (xmin, ymin, xmax, ymax) in zip(example.objects, example.boxes, strict=True):
            crowd += item.crowd
            difficult += item.difficult or 0
            truncated += item.truncated or 0
            classes[item.name] += 1
            area = (xmax - xmin) * (ymax - ymin)
            sides[_SIDE_NAMES[bisect.bisect_left(BOX_SIDES, math.sqrt(area / pixels))]] += 1
            area = item.area or area
            areas["small" if area < _SMALL else "medium" if area < _MEDIUM else "large"] += 1
        total = self.counts["total"]
        total["crowd"] += crowd
        total["difficult"] += difficult
        total["truncated"] += truncated

    def _range(self, name: str, value: float) -> None:
        known = self.ranges.setdefault(name, [0, 0, value, value])
        self.ranges[name] = [known[0] + 1, known[1] + value, min(known[2], value), max(known[3], value)]

    def merge(self, other: Counts) -> None:
        """Add other counts to this one."""
        for table, counter in other.counts.items():
            self.counts[table].update(counter)
        for name, (count, total, least, most) in other.ranges.items():
            known = self.ranges.setdefault(name, [0, 0, least, most])
            self.ranges[name] = [
                known[0] + count,
                known[1] + total,
                min(known[2], least),
                max(known[3], most),
            ]
        self.digests += other.digests
        self.boxes.merge(other.boxes)
