"""The evaluation artifact: metrics.json with the verdict, and curves.json.

Pictures lie beside them, see `detection_core.artifacts.pictures`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricInterval:
    """Where a metric lies on splits of this size, by the bootstrap over the split's images.

    Attributes:
        level: share of splits in whose intervals the true value lies, such as 0.95.
        resamples: how many were drawn.
        value: smallest and largest value of the metric.
        change: the same of its difference from the baseline's; None where there is none.
    """

    level: float
    resamples: int
    value: tuple[float, float]
    change: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ThresholdVerdict:
    """A threshold and whether it holds.

    Attributes:
        metric: full name of the metric.
        kind: `lower_bound`, `upper_bound` or `min_change`.
        bound: the least or largest value; for `min_change` the least difference from the baseline, which is
            negative where a loss is accepted.
        value: the metric; None where it is missing or not a number.
        baseline: the baseline's; None where there is none.
        confidence: only a difference that is significant at this level fails the threshold; None where the
            numbers themselves decide.
        interval: smallest and largest value that what is bounded may have at that level, at 0.95 where none
            is given: the metric, or its change; None where it is not known.
        within_noise: whether the bound lies in the interval, so that the split is too small to tell.
        passed: whether the threshold holds.
        text: the same for people.
    """

    metric: str
    kind: str = ""
    bound: float = 0.0
    value: float | None = None
    baseline: float | None = None
    confidence: float | None = None
    interval: tuple[float, float] | None = None
    within_noise: bool = False
    passed: bool
    text: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvalReport:
    """What metrics.json holds.

    Attributes:
        split: name of the split.
        images: how many images it has.
        metrics: name to value; where there is nothing to measure None, or COCO's -1.
        baseline: the same of the baseline; None where there is none.
        score_threshold: score from which detections are best used: precision and recall over all classes
            balance best there (highest F1); 0 where it is not known.
        intervals: metric to where it and its change lie, for mAP and metrics with a threshold.
        thresholds: every verdict.
        blessed: whether all thresholds hold; None in files of other tools.
        reasons: why, for people.
        seconds_per_image: time of one call; 0 where it is not known.
        peak_memory_bytes: the most that the process ever held; 0 where it is not known.
    """

    split: str = ""
    images: int = 0
    metrics: Mapping[str, float | None]
    baseline: Mapping[str, float | None] | None = None
    score_threshold: float = 0.0
    intervals: Mapping[str, MetricInterval] = dataclasses.field(default_factory=dict)
    thresholds: tuple[ThresholdVerdict, ...] = ()
    blessed: bool | None = None
    reasons: tuple[str, ...] = ()
    seconds_per_image: float = 0.0
    peak_memory_bytes: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassCurve:
    """A class's precision-recall curve at IoU 0.5, and its counts at the score threshold.

    Attributes:
        name: of the class.
        ap: COCO's average precision over IoU 0.5 to 0.95; None for a class without an object.
        ap50: average precision at IoU 0.5; None likewise.
        objects: of the class, crowds left out.
        found: objects that a detection of their class found.
        false_positives: detections that found nothing.
        misses: objects that no detection found.
        recall: abscissas of the curve, [101]; empty for a class without an object.
        precision: ordinates, likewise.
        scores: score from which each recall is reached, likewise.
    """

    name: str
    ap: float | None = None
    ap50: float | None = None
    objects: int = 0
    found: int = 0
    false_positives: int = 0
    misses: int = 0
    recall: list[float] = dataclasses.field(default_factory=list)
    precision: list[float] = dataclasses.field(default_factory=list)
    scores: list[float] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuse a curve whose points lack a coordinate."""
        if len(self.recall) != len(self.precision):
            raise ValueError(f"expected a precision for each recall, found {len(self.precision)}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Confusion:
    """Which class objects were taken for.

    Attributes:
        labels: names of the classes, `background` last, K + 1.
        matrix: [K + 1][K + 1] counts: true class by detected class; the last row counts detections without an
            object, the last column objects without a detection.
    """

    labels: list[str]
    matrix: list[list[int]]

    def __post_init__(self) -> None:
        """Refuse a matrix that is not square."""
        shape = [len(row) for row in self.matrix]
        if shape != [len(self.labels)] * len(self.labels):
            raise ValueError(f"expected {len(self.labels)} rows of as many counts, found rows of {shape}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curves:
    """What curves.json holds.

    Attributes:
        iou_threshold: overlap from which a detection finds an object.
        score_threshold: detections below it are not counted.
        map50: mAP at IoU 0.5; None where the split has no object.
        classes: in the order of the label map.
        confusion: at the score threshold.
    """

    iou_threshold: float = 0.5
    score_threshold: float
    map50: float | None = None
    classes: list[ClassCurve]
    confusion: Confusion | None = None


METRICS = JsonFile(
    name="metrics.json", content=EvalReport, writer="Evaluator", remedy="evaluate the detector again"
)
CURVES = JsonFile(
    name="curves.json",
    content=Curves,
    writer="Evaluator",
    remedy="evaluate the detector again",
    indent=None,
)


def finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Return metrics as metrics.json has them: None for what is not a number."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}
