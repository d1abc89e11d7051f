"""The evaluation artifact: metrics.json with the verdict, and curves.json.

`detection_core.artifacts.pictures` describes the pictures beside them. Metrics have the Object Detection
API's names for those of the COCO detection evaluation, https://cocodataset.org/#detection-eval (Lin et al.,
ECCV 2014).
"""

import dataclasses
import math
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricInterval:
    """Confidence interval of a metric on splits of this size, by bootstrap over images.

    Attributes:
        level: confidence level, such as 0.95.
        resamples: number of resamples.
        value: smallest and largest value of the metric.
        change: interval of the difference from the baseline; None without a baseline.
    """

    level: float
    resamples: int
    value: tuple[float, float]
    change: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ThresholdVerdict:
    """A threshold and whether the metric meets it.

    Attributes:
        metric: full name of the metric.
        kind: `lower_bound`, `upper_bound` or `min_change`.
        bound: least or largest value. For `min_change`, the least difference from the baseline; negative if a
            loss is accepted.
        value: the metric; None if missing or not a number.
        baseline: the baseline's metric; None if there is none.
        confidence: only a difference significant at this level fails; None compares the values directly.
        interval: confidence interval of the metric or its change, at level `confidence` (0.95 if None); None
            if unknown.
        within_noise: whether the bound lies in the interval: the split is too small to decide.
        passed: whether the metric meets the threshold.
        text: the verdict as readable text.
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
class EvalSlice:
    """The images of a split that have some value of a feature; `slice_metric` names its metrics.

    Attributes:
        feature: name of the feature.
        value: its value.
        images: number of images.
        objects: number of objects, without crowds.
    """

    feature: str
    value: str
    images: int
    objects: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvalReport:
    """The content of metrics.json.

    Attributes:
        split: name of the split.
        images: number of images in it.
        metrics: name to value; None or COCO's -1 if there is nothing to measure.
        baseline: the baseline's metrics; None without a baseline.
        score_threshold: recommended minimum score of detections: highest F1 over all classes; 0 if unknown.
        intervals: metric to its interval, for the mAP of each shape, also of slices, and metrics with a
            threshold.
        slices: parts of the split that are measured separately.
        thresholds: every verdict.
        blessed: whether all thresholds are met; None in other tools' files.
        reasons: reasons as readable text.
        seconds_per_image: time of one call; 0 if unknown.
        peak_memory_bytes: the process's peak memory; 0 if unknown.
    """

    split: str = ""
    images: int = 0
    metrics: Mapping[str, float | None]
    baseline: Mapping[str, float | None] | None = None
    score_threshold: float = 0.0
    intervals: Mapping[str, MetricInterval] = dataclasses.field(default_factory=dict)
    slices: tuple[EvalSlice, ...] = ()
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
        ap50: average precision at IoU 0.5; None for a class without an object.
        objects: number of objects, without crowds.
        found: true positives.
        false_positives: detections without a matching object.
        misses: objects without a matching detection.
        recall: recall values of the curve, [101]; empty for a class without an object.
        precision: precision at each recall, likewise.
        scores: score threshold at each recall, likewise.
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
        if len(self.recall) != len(self.precision):
            raise ValueError(f"expected a precision for each recall, found {len(self.precision)}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Confusion:
    """Confusion matrix of classes.

    Attributes:
        labels: K class names, then `background`.
        matrix: [K + 1][K + 1] counts: true class by detected class. The last row counts detections without an
            object, the last column objects without a detection.
    """

    labels: list[str]
    matrix: list[list[int]]

    def __post_init__(self) -> None:
        shape = [len(row) for row in self.matrix]
        if shape != [len(self.labels)] * len(self.labels):
            raise ValueError(f"expected {len(self.labels)} rows of as many counts, found rows of {shape}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curves:
    """The content of curves.json.

    Attributes:
        iou_type: what IoU is measured of: `bbox` or, where masks are evaluated, `segm`.
        iou_threshold: least IoU of a detection and its object.
        score_threshold: detections with lower scores are not counted.
        map50: mAP at IoU 0.5; None if the split has no object.
        classes: in the order of the label map.
        confusion: confusion matrix at the score threshold.
    """

    iou_type: str = "bbox"
    iou_threshold: float = 0.5
    score_threshold: float
    map50: float | None = None
    classes: list[ClassCurve]
    confusion: Confusion | None = None


METRICS = JsonFile(
    name="metrics.json", content=EvalReport, writer="Evaluator", remedy="evaluate the detector again"
)
CURVES = JsonFile(
    name="curves.json", content=Curves, writer="Evaluator", remedy="evaluate the detector again", indent=None
)


def finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Return metrics as in metrics.json: None for NaN and infinity."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


MAP = "DetectionBoxes_Precision/mAP"
MAP_50 = "DetectionBoxes_Precision/mAP@.50IOU"
COCO_METRICS = (
    MAP, MAP_50, "DetectionBoxes_Precision/mAP@.75IOU", "DetectionBoxes_Precision/mAP (small)",
    "DetectionBoxes_Precision/mAP (medium)", "DetectionBoxes_Precision/mAP (large)",
    "DetectionBoxes_Recall/AR@1", "DetectionBoxes_Recall/AR@10", "DetectionBoxes_Recall/AR@100",
    "DetectionBoxes_Recall/AR@100 (small)", "DetectionBoxes_Recall/AR@100 (medium)",
    "DetectionBoxes_Recall/AR@100 (large)",
)  # fmt: skip
"""COCO's twelve metrics of boxes, always reported, in the order of its summary."""

MASK_METRICS = tuple(name.replace("DetectionBoxes", "DetectionMasks") for name in COCO_METRICS)
"""COCO's twelve metrics of masks."""
KEYPOINT_METRICS = (
    "Keypoints_Precision/mAP", "Keypoints_Precision/mAP@.50IOU", "Keypoints_Precision/mAP@.75IOU",
    "Keypoints_Precision/mAP (medium)", "Keypoints_Precision/mAP (large)", "Keypoints_Recall/AR@1",
    "Keypoints_Recall/AR@10", "Keypoints_Recall/AR@100", "Keypoints_Recall/AR@100 (medium)",
    "Keypoints_Recall/AR@100 (large)",
)  # fmt: skip
"""COCO's ten metrics of keypoints, by object keypoint similarity (OKS), in the order of its summary.

COCO counts at most 20 detections per image. In the Object Detection API's names, AR@1 is the recall over all
thresholds. AR@10 is the recall at 0.5, and AR@100 the recall at 0.75. These names stay, because charts and
gates use them.
"""
SHAPE_METRICS = {"coco_mask_metrics": MASK_METRICS, "coco_keypoint_metrics": KEYPOINT_METRICS}
"""Maps a metrics set of `eval_config` to the metrics that it adds to those of boxes."""
SHAPE_MAP_50 = {"masks": MASK_METRICS[1], "keypoints": KEYPOINT_METRICS[1]}
"""Maps what is found besides boxes to the name of its mAP at a threshold of .50."""

LVIS_SET = "lvis_mask_metrics"
_LVIS_NAMES = "AP AP50 AP75 APs APm APl APr APc APf AR@300 ARs@300 ARm@300 ARl@300"
LVIS_METRICS = tuple(f"DetectionMasks_{name}" for name in _LVIS_NAMES.split())
"""LVIS's metrics of masks, by their names there; r, c and f are rare, common and frequent classes."""

ERROR_KINDS = CLASSIFICATION, LOCALIZATION, BOTH, DUPLICATE, BACKGROUND, MISSED = (
    "classification", "localization", "both", "duplicate", "background", "missed",
)  # fmt: skip
"""TIDE's kinds of errors, by the names of its paper."""
TIDE_METRICS = {
    set_: (f"{prefix}_Precision/mAP@.50IOU", *(f"{prefix}_dAP@.50IOU/{error}" for error in errors))
    for errors in [(*ERROR_KINDS, "false_positives", "false_negatives")]
    for set_, prefix in (("tide_metrics", "TIDEBoxes"), ("tide_mask_metrics", "TIDEMasks"))
}
"""Maps TIDE's sets to its mAP, then the gain in mAP without the errors of each kind."""

CATEGORY_PREFIX = "DetectionBoxes_PerformanceByCategory/mAP/"
GROUP_PREFIX = "DetectionBoxes_PerformanceBySuperCategory/"
SLICE_PREFIX = "DetectionBoxes_PerformanceBySlice/mAP/"
NOTHING_TO_MEASURE = -1.0
"""COCO's value of a metric for which the split has no object."""


def category_metric(name: str, of: str = MAP) -> str:
    """Return the name of a class's AP; `of` is the mAP of boxes, masks or keypoints."""
    return CATEGORY_PREFIX.replace(metric_prefix(MAP), metric_prefix(of)) + name


def group_metric(name: str, of: str = MAP) -> str:
    """Return the name of the mean AP over a group of classes; `of` as in `category_metric`."""
    return GROUP_PREFIX.replace(metric_prefix(MAP), metric_prefix(of)) + name


def slice_metric(feature: str, value: str, of: str = MAP) -> str:
    """Return the name of the mAP of the images with a feature's value; `of` as in `category_metric`."""
    return f"{SLICE_PREFIX.replace(metric_prefix(MAP), metric_prefix(of))}{feature}={value}"


def metric_prefix(metric: str) -> str:
    """Return the prefix of a metrics set's names, such as `DetectionBoxes`."""
    return metric.partition("_")[0]


def is_measured(value: float | None) -> bool:
    """Return whether a metric has a value: not missing, not NaN, and not COCO's -1."""
    return value is not None and math.isfinite(value) and value != NOTHING_TO_MEASURE
