"""Bootstrap confidence intervals of metrics over the images of a split.

Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979, https://doi.org/10.1214/aos/1176344552.
Percentile intervals: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13. They are
widened for small splits: Hesterberg, "What Teachers Should Know About the Bootstrap", 2015,
https://doi.org/10.1080/00031305.2015.1089789. Images are drawn with replacement, the same ones for all
detectors (paired bootstrap). A difference between two detectors is then far more certain than either value.
"""

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from detection_core.artifacts.evaluation import MetricInterval
from detection_core.evaluation.coco_metrics import (
    AREA_RANGES,
    IOU_THRESHOLDS,
    MAX_DETECTIONS,
    RECALLS,
    Measure,
    Overlaps,
    Summary,
    find_measures,
    find_overlaps,
)
from detection_core.evaluation.evaluated_split import EvaluatedSplit


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassMatches:
    """A class's detections of all images by descending score, N of them, at T IoU thresholds.

    Attributes:
        image: int [N], index of the image of each detection.
        rank: int [N], rank among the image's detections of the class.
        hits: bool [T, N], whether it found an object that counts.
        ignored: bool [T, N], whether it is ignored: in a crowd, or of another size.
        objects: int [number of images], objects that count.
    """

    image: np.ndarray
    rank: np.ndarray
    hits: np.ndarray
    ignored: np.ndarray
    objects: np.ndarray


def match_class(
    overlaps: Mapping[tuple[int, int], Overlaps], images: int, class_: int, area: str = "all"
) -> ClassMatches:
    """Match a split's detections of a class with its objects, so that resamples need no new matching.

    The engine of COCO's metrics does not expose its matches. These are the same, by the rules of the COCO
    detection evaluation (Lin et al., 2014, https://cocodataset.org/#detection-eval).

    Args:
        overlaps: from `find_overlaps`.
        images: their number.
        class_: in [0, C).
        area: name of the area range, in `AREA_RANGES`, whose objects count.
    """
    of_class = (overlaps.get((place, class_)) for place in range(images))
    return _joined([_NOTHING if one is None else _match(one, area) for one in of_class])


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ImageMatches:
    scores: np.ndarray
    hits: np.ndarray
    ignored: np.ndarray
    objects: int


_NOTHING = _ImageMatches(
    scores=np.zeros(0),
    hits=np.zeros((len(IOU_THRESHOLDS), 0), bool),
    ignored=np.zeros((len(IOU_THRESHOLDS), 0), bool),
    objects=0,
)


def _joined(parts: Sequence[_ImageMatches]) -> ClassMatches:
    counts = [len(part.scores) for part in parts]
    scores = np.concatenate([part.scores for part in parts])
    order = np.argsort(-scores, kind="stable")
    rank = np.concatenate([np.arange(count) for count in counts])
    return ClassMatches(
        image=np.repeat(np.arange(len(parts)), counts)[order],
        rank=rank[order],
        hits=np.concatenate([part.hits for part in parts], axis=1)[:, order],
        ignored=np.concatenate([part.ignored for part in parts], axis=1)[:, order],
        objects=np.array([part.objects for part in parts]),
    )


def _match(found: Overlaps, area: str) -> _ImageMatches:
    skipped = found.ignored | _outside(found.object_areas, area)
    hits, ignored = _paired(found.overlaps, skipped, found.is_crowd)
    return _ImageMatches(
        scores=found.scores,
        hits=hits,
        ignored=ignored | (_outside(found.areas, area) & ~hits),
        objects=int((~skipped).sum()),
    )


def _outside(areas: np.ndarray, name: str) -> np.ndarray:
    low, high = AREA_RANGES[name]
    return (areas < low) | (areas > high)


def _paired(overlaps: np.ndarray, skipped: np.ndarray, crowd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Match detections by descending score with the best free object, preferring those that count.

    `overlaps` is float64 [D, G]. `skipped`, bool [G], objects do not count; `crowd` ones match any number.
    The results, bool [T, D], are detections of an object that counts, and of one that does not.
    """
    thresholds = np.minimum(IOU_THRESHOLDS, 1 - 1e-10)
    hits: np.ndarray = np.zeros((len(thresholds), len(overlaps)), bool)
    ignored = np.zeros_like(hits)
    free = np.ones((len(thresholds), overlaps.shape[1]), bool)
    rows = np.arange(len(thresholds))
    for d in np.flatnonzero((overlaps >= thresholds[0]).any(axis=1)):
        near = (overlaps[d] >= thresholds[:, None]) & (free | crowd)
        for counted, taken in ((near & ~skipped, hits), (near & skipped, ignored)):
            takes = counted.any(axis=1) & ~hits[:, d]
            best = _last_best(np.where(counted, overlaps[d], -1.0))
            taken[takes, d] = True
            free[rows[takes], best[takes]] = False
    return hits, ignored


def _last_best(values: np.ndarray) -> np.ndarray:
    """Return the index of each row's largest value; of equal ones the last, as COCO's tools do."""
    return values.shape[1] - 1 - values[:, ::-1].argmax(axis=1)


LEVEL = 0.95
_NUMBERS_AT_ONCE = 4_000_000
"""Most numbers in an array of resampled detections."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BootstrapOptions:
    """How splits are resampled.

    Attributes:
        resamples: number of resamples; with 1,000 the ends of a 95 % interval rest on 25 of them.
        seed: of the random numbers.
    """

    resamples: int = 1000
    seed: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resampled:
    """A metric of each resampled split.

    Attributes:
        values: float64 [resamples]; NaN if a resample has nothing to measure.
        baseline: the baseline's values on the same images; None without a baseline.
        images: number of images in the split.
    """

    values: np.ndarray
    baseline: np.ndarray | None
    images: int

    def interval(self, level: float = LEVEL) -> MetricInterval | None:
        """Return the confidence intervals of the metric and its change; None with too little data.

        Args:
            level: confidence level: the share of splits of this size whose interval contains the true value.
        """
        tail = _tail(level, self.images)
        value = _percentiles(self.values, tail)
        if value is None:
            return None
        change = None if self.baseline is None else _percentiles(self.values - self.baseline, tail)
        return MetricInterval(level=level, resamples=len(self.values), value=value, change=change)


def resample(
    split: EvaluatedSplit,
    baseline: EvaluatedSplit | None,
    metrics: Sequence[str],
    *,
    groups: Mapping[str, Sequence[str]],
    options: BootstrapOptions | None = None,
) -> dict[str, Resampled]:
    """Measure COCO's `metrics`, which may refer to `groups` of classes, on resampled splits."""
    options = options or BootstrapOptions()
    measures = find_measures(metrics, split.class_names, groups)
    if len(split.counted) < 2:
        return {}
    drawn = _draw(len(split.counted), options)
    found = _measured(split, measures, drawn)
    other = _measured(baseline, measures, drawn) if baseline else {}
    images = len(split.counted)
    return {
        metric: Resampled(values=values, baseline=other.get(metric), images=images)
        for metric, values in found.items()
    }


def known_intervals(resampled: Mapping[str, Resampled]) -> dict[str, MetricInterval]:
    """Return each metric's interval at `LEVEL`; undefined ones are left out."""
    found = {metric: one.interval() for metric, one in resampled.items()}
    return {metric: interval for metric, interval in found.items() if interval is not None}


def _draw(images: int, options: BootstrapOptions) -> np.ndarray:
    """Return the count of each image in each resample, float32 [resamples, images]."""
    rng = np.random.default_rng(options.seed)
    counts = rng.multinomial(images, np.full(images, 1 / images), size=options.resamples)
    return counts.astype(np.float32)


def _measured(
    split: EvaluatedSplit, measures: Mapping[str, Measure], drawn: np.ndarray
) -> dict[str, np.ndarray]:
    """Return each metric on each resample, float64 [resamples]."""
    overlaps = {
        kind.iou_type: find_overlaps(split.counted, split.class_names, kind)
        for kind in {measure.kind.iou_type: measure.kind for measure in measures.values()}.values()
    }
    matches: dict[tuple[str, str, int], ClassMatches] = {}
    cells: dict[tuple[str, Summary, int], np.ndarray] = {}
    values = {}
    for metric, measure in measures.items():
        shape, summary, parts = measure.kind.iou_type, measure.summary, []
        for class_ in measure.classes:
            place = (shape, summary.area, class_)
            if place not in matches:
                matches[place] = match_class(overlaps[shape], len(split.counted), class_, summary.area)
            key = (shape, summary, class_)
            if key not in cells:
                cells[key] = _of_class(matches[place], measure, drawn)
            parts.append(cells[key])
        values[metric] = _mean(np.stack(parts))
    return values


def _mean(values: np.ndarray) -> np.ndarray:
    """Return the mean over classes with an object, [C, resamples]; NaN if there is none."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0).sum(axis=0)
    return np.divide(total, known.sum(axis=0), out=np.full(len(total), np.nan), where=known.any(axis=0))


def _of_class(matches: ClassMatches, measure: Measure, drawn: np.ndarray) -> np.ndarray:
    """Return a class's mean over IoU thresholds on each resample; NaN without objects."""
    summary = measure.summary
    overlaps = range(len(IOU_THRESHOLDS)) if summary.iou is None else [summary.iou]
    kept = matches.rank < MAX_DETECTIONS[summary.max_detections]
    chunk = max(1, _NUMBERS_AT_ONCE // max(1, int(kept.sum())))
    values = []
    for start in range(0, len(drawn), chunk):
        counts = drawn[start : start + chunk]
        objects = counts @ matches.objects
        weights = counts[:, matches.image[kept]]
        everything = np.cumsum(weights, axis=1)
        total = np.zeros(len(counts))
        for overlap in overlaps:
            hits, ignored = matches.hits[overlap, kept], matches.ignored[overlap, kept]
            counted = np.cumsum(weights * ~ignored, axis=1) if ignored.any() else everything
            found = np.cumsum(weights[:, hits], axis=1, dtype=np.float64)
            if summary.is_precision:
                total += _average_precision(found, counted[:, hits], objects)
            elif found.shape[1]:
                total += found[:, -1] / np.maximum(objects, 1)
        values.append(np.where(objects > 0, total / len(overlaps), np.nan))
    return np.concatenate(values)


def _average_precision(found: np.ndarray, counted: np.ndarray, objects: np.ndarray) -> np.ndarray:
    """Return the mean of the interpolated precision at COCO's recalls, float64 [resamples].

    `found` objects and `counted` detections up to each of H hits are float64 [resamples, H].
    """
    precision = found / np.maximum(counted, 1)
    highest = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    recall = found / np.maximum(objects, 1)[:, None]
    reached = np.searchsorted(RECALLS, recall, side="right")
    return (highest * np.diff(reached, axis=1, prepend=0)).sum(axis=1) / len(RECALLS)


def _tail(level: float, images: int) -> float:
    """Return the fraction of resamples to leave out at each end.

    The quantile of Student's t for this number of images replaces the normal one (Abramowitz and Stegun,
    26.7.5).
    """
    normal, freedom = statistics.NormalDist(), images - 1
    z = normal.inv_cdf((1 + level) / 2)
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return normal.cdf(-t * math.sqrt(images / freedom))


def _percentiles(values: np.ndarray, tail: float) -> tuple[float, float] | None:
    known = values[~np.isnan(values)]
    if not known.size:
        return None
    low, high = np.percentile(known, [100 * tail, 100 * (1 - tail)])
    return float(low), float(high)
