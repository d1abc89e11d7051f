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
from detection_core.evaluation.coco_matching import IOU_THRESHOLDS, MatchTable, unpack
from detection_core.evaluation.coco_metrics import RECALLS, Kind, Measure, Summary, find_measures
from detection_core.evaluation.evaluated_split import EvaluatedSplit

LEVEL = 0.95
_NUMBERS_AT_ONCE = 4_000_000
"""Most numbers in an array of resampled detections."""


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
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Resampled]:
    """Measure COCO's `metrics`, which may refer to `groups` of classes, on resampled splits.

    With 1,000 resamples the ends of a 95 % interval rest on 25 of them.
    """
    measures = find_measures(metrics, split.class_names, groups)
    if len(split.counted) < 2:
        return {}
    drawn = _draw(len(split.counted), resamples, seed)
    found = _measured(split, measures, drawn)
    other = _measured(baseline, measures, drawn) if baseline else {}
    return {
        metric: Resampled(values=values, baseline=other.get(metric), images=len(split.counted))
        for metric, values in found.items()
    }


def known_intervals(resampled: Mapping[str, Resampled]) -> dict[str, MetricInterval]:
    """Return each metric's interval at `LEVEL`; undefined ones are left out."""
    found = {metric: one.interval() for metric, one in resampled.items()}
    return {metric: interval for metric, interval in found.items() if interval is not None}


def _draw(images: int, resamples: int, seed: int) -> np.ndarray:
    """Return the count of each image in each resample, uint8 [resamples, images]."""
    rng = np.random.default_rng(seed)
    even = np.full(images, 1 / images)
    return np.stack([rng.multinomial(images, even).astype(np.uint8) for _ in range(resamples)])


def _measured(
    split: EvaluatedSplit, measures: Mapping[str, Measure], drawn: np.ndarray
) -> dict[str, np.ndarray]:
    """Return each metric on each resample, float64 [resamples]."""
    cells: dict[tuple[str, Summary, int], np.ndarray] = {}
    for kind in {measure.kind.iou_type: measure.kind for measure in measures.values()}.values():
        own = [measure for measure in measures.values() if measure.kind is kind]
        of_class = split.table(kind).by_class()
        for class_ in sorted({class_ for measure in own for class_ in measure.classes}):
            table = of_class(class_)
            for summary in {measure.summary for measure in own if class_ in measure.classes}:
                cells[kind.iou_type, summary, class_] = _of_class(table, kind, summary, drawn)
    return {
        metric: _mean(np.stack([cells[m.kind.iou_type, m.summary, class_] for class_ in m.classes]))
        for metric, m in measures.items()
    }


def _mean(values: np.ndarray) -> np.ndarray:
    """Return the mean over classes with an object, [C, resamples]; NaN if there is none."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0).sum(axis=0)
    return np.divide(total, known.sum(axis=0), out=np.full(len(total), np.nan), where=known.any(axis=0))


def _of_class(table: MatchTable, kind: Kind, summary: Summary, drawn: np.ndarray) -> np.ndarray:
    """Return a class's mean over IoU thresholds on each resample; NaN without objects."""
    area = kind.areas.index(summary.area)
    overlaps = range(len(IOU_THRESHOLDS)) if summary.iou is None else [summary.iou]
    limit = kind.most[summary.max_detections]
    kept = table.take(table.rank < limit, table.counts[:, area])
    all_hits, all_ignored = unpack(kept.hits[:, area]), unpack(kept.ignored[:, area])
    chunk = max(1, _NUMBERS_AT_ONCE // max(1, len(kept.image), len(kept.object_image)))
    values = []
    for start in range(0, len(drawn), chunk):
        counts = drawn[start : start + chunk]
        objects = counts[:, kept.object_image].sum(axis=1)
        weights: np.ndarray = counts[:, kept.image].astype(np.float32)
        everything = np.cumsum(weights, axis=1)
        total = np.zeros(len(counts))
        for overlap in overlaps:
            hits, ignored = np.flatnonzero(all_hits[overlap]), np.flatnonzero(all_ignored[overlap])
            found = np.cumsum(weights[:, hits], axis=1, dtype=np.float64)
            if summary.is_precision:
                before = np.cumsum(np.pad(weights[:, ignored], ((0, 0), (1, 0))), axis=1)
                counted = everything[:, hits] - before[:, np.searchsorted(ignored, hits)]
                total += _average_precision(found, counted, objects)
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
