"""Rank the worst mistakes: confident false positives and large missed objects."""

import dataclasses
import heapq
import itertools
import operator
from collections.abc import Callable, Iterator

import numpy as np

from detection_core.artifacts.evaluation import BACKGROUND, BOTH, DUPLICATE, LOCALIZATION
from detection_core.artifacts.pictures import FALSE_POSITIVE, MISS
from detection_core.evaluation.error_kinds import classify_errors
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.results import IOU_THRESHOLD, NOT_MATCHED, box_areas, to_px

# so that one image full of mistakes does not crowd out the others
MOST_OF_AN_IMAGE = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mistake:
    """One false positive or miss.

    Attributes:
        kind: `FALSE_POSITIVE` or `MISS`.
        image: index of the image.
        row: the detection's or the object's row.
        weight: ranking key: the score of a false positive, or the area in pixels of a miss.
        caption: readable description.
    """

    kind: str
    image: int
    row: int
    weight: float
    caption: str


def worst_false_positives(split: EvaluatedSplit, count: int) -> list[Mistake]:
    """Return the false positives with the highest scores, at most three an image."""
    found = (
        (-float(image.detections.scores[row]), i, int(row))
        for i, (image, match) in enumerate(zip(split.counted, split.matches, strict=True))
        for row in np.flatnonzero(match.found_by == NOT_MATCHED)
    )
    return _heaviest(FALSE_POSITIVE, split, found, _explain_false_positive, count)


def largest_misses(split: EvaluatedSplit, score_threshold: float, count: int) -> list[Mistake]:
    """Return the largest objects that no detection from the threshold on finds, at most three an image."""

    def found() -> Iterator[tuple[float, int, int]]:
        for i, (image, match) in enumerate(zip(split.counted, split.matches, strict=True)):
            hits = match.found_by[image.detections.scores >= score_threshold]
            missed = ~image.truth.is_crowd
            missed[hits[hits >= 0]] = False
            areas = box_areas(to_px(image.truth.boxes, image.truth))
            yield from ((-float(areas[row]), i, int(row)) for row in np.flatnonzero(missed))

    return _heaviest(MISS, split, found(), _explain_miss, count)


def _heaviest(
    kind: str,
    split: EvaluatedSplit,
    found: Iterator[tuple[float, int, int]],
    explain: Callable[[EvaluatedSplit, int, int], str],
    count: int,
) -> list[Mistake]:
    """Return the heaviest of (-weight, image, row), which are by image, with a limit for each image."""
    own = (heapq.nsmallest(MOST_OF_AN_IMAGE, g) for _, g in itertools.groupby(found, operator.itemgetter(1)))
    return [
        Mistake(kind=kind, image=i, row=row, weight=-weight, caption=explain(split, i, row))
        for weight, i, row in heapq.nsmallest(count, itertools.chain.from_iterable(own))
    ]


def _explain_false_positive(split: EvaluatedSplit, index: int, row: int) -> str:
    image, match, class_names = split.counted[index], split.matches[index], split.class_names
    said = f"{class_names[int(image.detections.classes[row])]} {image.detections.scores[row]:.2f}"
    kind, nearest = (values[row] for values in classify_errors(image, match))
    if kind == BACKGROUND:
        return f"{said}: nothing is there"
    if kind == DUPLICATE:
        return f"{said}: a second detection of the same object"
    overlap = f"(overlap {match.overlaps[row, nearest]:.2f})"
    if kind == LOCALIZATION:
        return f"{said}: badly placed {overlap}"
    badly = "badly placed, and " if kind == BOTH else ""
    return f"{said}: {badly}it is {class_names[int(image.truth.classes[nearest])]} {overlap}"


def _explain_miss(split: EvaluatedSplit, index: int, row: int) -> str:
    image, match, class_names = split.counted[index], split.matches[index], split.class_names
    label = int(image.truth.classes[row])
    ymin, xmin, ymax, xmax = to_px(image.truth.boxes[row : row + 1], image.truth)[0]
    missed = f"{class_names[label]}, {xmax - xmin:.0f} x {ymax - ymin:.0f} px"
    near = np.flatnonzero(match.overlaps[:, row] >= IOU_THRESHOLD)
    if not near.size:
        return f"{missed}: nothing was found there"
    best = int(near[0])  # detections are sorted by descending score
    said = f"{class_names[int(image.detections.classes[best])]} {image.detections.scores[best]:.2f}"
    return f"{missed}: the best there was {said}"
