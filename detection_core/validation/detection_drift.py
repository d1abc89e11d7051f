"""Compares what a served detector finds with what it found on the evaluated split.

Properties are compared by their Jensen-Shannon divergence. Its threshold is learned from the noise of the
evaluated split. Many times, two samples are drawn from the split with replacement (bootstrap): one as large
as the served images, one as large as the split. The threshold of a property is its mean divergence in these
draws, times a factor that is the same for all. The factor is so large that only the allowed share of the
draws has a property above its threshold. So this share bounds the false alarms of all properties together
(Westfall and Young, "Resampling-Based Multiple Testing", 1993, single-step maximum). A property that is the
same in all images of the split has no noise. There, a few images may differ: as many as the "rule of three"
allows for the images compared (Hanley and Lippman-Hand, JAMA 249(13), 1983).

Served images beyond the size of the split do not lower the threshold. Otherwise it would be 0 for many
images, and every difference between the split and production would be drift.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from detection_core.artifacts.detection_statistics import BinnedValues, ComparedProperty, DetectionStatistics
from detection_core.errors import ConfigError
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.structures import Instances
from detection_core.validation import box_statistics

SCORES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Bin edges: scores of detections."""
BRIGHTNESS = (32, 64, 96, 128, 160, 192, 224)
"""Bin edges: mean of an image's values, 0 to 255."""
MOST_IMAGES = 2000
"""Number of images of a split that are kept as its sample."""
_UNKNOWN = -1
_CROWDING = "objects of an image"


class Served(NamedTuple):
    """An image that a detector has seen.

    Attributes:
        found: its detections, and its size in pixels if that is known.
        brightness: mean of its values, 0 to 255; NaN if unknown.
    """

    found: Instances
    brightness: float = float("nan")


def describe_detections(
    images: Sequence[Served], classes: Sequence[str], *, min_score: float
) -> DetectionStatistics:
    """Return the statistics of detections from a score on.

    `classes` are the names of the detector's classes, of which each detection's class is an index.
    """
    kept = [image.found.take(_rounded(image.found.scores) >= min_score) for image in images]
    counts = np.array([len(found.classes) for found in kept], np.int64)
    sides = np.array([(found.height, found.width) for found in kept], np.float64).reshape(-1, 2)
    owners: np.ndarray = np.repeat(np.arange(len(kept)), counts)
    boxes = np.concatenate([np.zeros((0, 4)), *(found.boxes for found in kept)])
    labels = np.concatenate([np.zeros(0, np.int64), *(found.classes for found in kept)])
    scores = np.concatenate([np.zeros(0), *(_rounded(found.scores) for found in kept)])
    known = (sides > 0).all(axis=1)
    of_detections = box_statistics.find_box_bins(boxes, labels, np.maximum(sides, 1)[owners])
    of_detections["aspect"][~known[owners]] = _UNKNOWN
    of_detections["score"] = np.digitize(scores, SCORES)
    of_images = box_statistics.find_image_bins(counts, np.maximum(sides, 1))
    for name in ("image size", "image aspect"):
        of_images[name][~known] = _UNKNOWN
    brightness = np.array([image.brightness for image in images], np.float64)
    of_images["brightness"] = np.where(np.isnan(brightness), _UNKNOWN, np.digitize(brightness, BRIGHTNESS))
    detection_bins = {
        "class": list(classes),
        "score": box_statistics.named_ranges(SCORES),
        **box_statistics.BOX_BINS,
    }
    image_bins = {"brightness": box_statistics.named_ranges(BRIGHTNESS), **box_statistics.IMAGE_BINS}
    return DetectionStatistics(
        split="",
        min_score=min_score,
        images=len(images),
        detections=counts.tolist(),
        of_detections=_binned(of_detections, detection_bins),
        of_images=_binned(of_images, image_bins),
    )


def _binned(values: Mapping[str, np.ndarray], bins: Mapping[str, list[str]]) -> dict[str, BinnedValues]:
    return {name: BinnedValues(bins=bins[name], values=found.tolist()) for name, found in values.items()}


def describe_evaluation(split: EvaluatedSplit, classes: Sequence[str], name: str) -> DetectionStatistics:
    """Return the statistics of a split's detections that programs show, from a score of `SCORES` on.

    `classes` are the names of all classes from id 1 on, `name` is that of the split. Of a large split, an
    even sample is taken.
    """
    sample = split.images[:: max(1, math.ceil(len(split.images) / MOST_IMAGES))]
    served = [Served(image.sized_detections, image.brightness) for image in sample]
    min_score = max((edge for edge in SCORES if edge <= split.score_threshold), default=0.0)
    found = describe_detections(served, classes, min_score=min_score)
    return dataclasses.replace(found, split=name, images=len(split.images))


def from_score(found: DetectionStatistics, min_score: float) -> DetectionStatistics:
    """Return the statistics of the detections from a higher score on; ConfigError if it is not counted."""
    allowed = [edge for edge in SCORES if edge >= found.min_score]
    if min_score not in allowed:
        raise ConfigError(
            f"expected {', '.join(map(str, allowed))}, from which the evaluation counted detections,"
            f" found {min_score:g}",
            where="min_score",
        )
    least = int(np.digitize(min_score, SCORES))
    kept = np.array(found.of_detections["score"].values, np.int64) >= least
    owners: np.ndarray = np.repeat(np.arange(len(found.detections)), found.detections)
    counts = np.bincount(owners[kept], minlength=len(found.detections))
    crowding = box_statistics.find_image_bins(counts, np.ones((len(counts), 2)))[_CROWDING].tolist()
    return dataclasses.replace(
        found,
        min_score=min_score,
        detections=counts.tolist(),
        of_detections={
            name: dataclasses.replace(known, values=np.array(known.values, np.int64)[kept].tolist())
            for name, known in found.of_detections.items()
        },
        of_images={
            **found.of_images,
            _CROWDING: dataclasses.replace(found.of_images[_CROWDING], values=crowding),
        },
    )


def compare_detections(
    served: DetectionStatistics,
    evaluated: DetectionStatistics,
    *,
    false_alarms: float = 0.01,
    draws: int = 1000,
) -> list[ComparedProperty]:
    """Compare the properties that both know; those that drifted first, then by falling divergence.

    Args:
        served: of at least one image, described with the evaluated detector's classes and minimum score.
        evaluated: of the split.
        false_alarms: share of comparisons without drift in which a property is above its threshold.
        draws: number of pairs of samples that thresholds are learned from.
    """
    ours, theirs = _tables(served), _tables(evaluated)
    fewest = min(len(served.detections), len(evaluated.detections))
    names = [name for name in theirs if name in ours and ours[name].any() and theirs[name].any()]
    count = len(evaluated.detections)
    rng = np.random.default_rng(0)
    drawn, drawn_again = (
        rng.multinomial(size, np.full(count, 1 / count), size=draws) for size in (fewest, count)
    )
    noise = {name: _divergence(drawn @ theirs[name], drawn_again @ theirs[name]) for name in names}
    usual = {name: float(values.mean()) for name, values in noise.items() if values.any()}
    largest = np.max([np.zeros(draws), *(noise[name] / usual[name] for name in usual)], axis=0)
    factor = float(np.quantile(largest, 1 - false_alarms))
    share = min(1.0, -math.log(false_alarms) / fewest)
    of_constant = float(box_statistics.jensen_shannon(np.array([1 - share, share]), np.array([1.0, 0.0])))
    bins = {name: values.bins for name, values in _properties(evaluated).items()}
    compared = [
        _compared(
            name,
            bins[name],
            ours[name].sum(axis=0),
            theirs[name].sum(axis=0),
            factor * usual[name] if name in usual else of_constant,
        )
        for name in names
    ]
    return sorted(compared, key=lambda found: (not found.drifted, -found.divergence))


def _compared(
    name: str, bins: list[str], now: np.ndarray, before: np.ndarray, threshold: float
) -> ComparedProperty:
    p, q = now / now.sum(), before / before.sum()
    most = int(np.abs(p - q).argmax())
    return ComparedProperty(
        name=name,
        divergence=float(box_statistics.jensen_shannon(p, q)),
        threshold=threshold,
        most_changed=bins[most],
        before=float(q[most]),
        after=float(p[most]),
        bins=bins,
        counts=(before.tolist(), now.tolist()),
    )


def _divergence(counts: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the divergence of two samples in each draw, float [R], from counts by bin, int [R, B]."""
    p, q = (each / np.maximum(each.sum(axis=-1, keepdims=True), 1) for each in (counts, others))
    return box_statistics.jensen_shannon(p, q)


def _rounded(scores: np.ndarray) -> np.ndarray:
    """Return scores as predictions are written, so that 0.9 as float32 is not below 0.9."""
    return np.round(np.asarray(scores, np.float64), 5)


def _properties(found: DetectionStatistics) -> Mapping[str, BinnedValues]:
    return {**found.of_detections, **found.of_images}


def _tables(found: DetectionStatistics) -> dict[str, np.ndarray]:
    """Return each property's counts by image and bin, int [N, B]."""
    images = len(found.detections)
    owners = {True: np.repeat(np.arange(images), found.detections), False: np.arange(images)}
    tables: dict[str, np.ndarray] = {}
    for name, known in _properties(found).items():
        values: np.ndarray = np.array(known.values, np.int64)
        tables[name] = np.zeros((images, len(known.bins)), np.int64)
        kept = values != _UNKNOWN
        np.add.at(tables[name], (owners[name in found.of_detections][kept], values[kept]), 1)
    return tables
