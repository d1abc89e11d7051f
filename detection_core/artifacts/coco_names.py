"""Names of the metrics that an evaluation reports: the Object Detection API's names of COCO's metrics.

The metrics are defined by the COCO detection evaluation (Lin et al., Microsoft COCO: Common Objects in
Context, ECCV 2014, https://cocodataset.org/#detection-eval).
"""

from __future__ import annotations

import math

MAP = "DetectionBoxes_Precision/mAP"
MAP_50 = "DetectionBoxes_Precision/mAP@.50IOU"
COCO_METRICS = (
    MAP,
    MAP_50,
    "DetectionBoxes_Precision/mAP@.75IOU",
    "DetectionBoxes_Precision/mAP (small)",
    "DetectionBoxes_Precision/mAP (medium)",
    "DetectionBoxes_Precision/mAP (large)",
    "DetectionBoxes_Recall/AR@1",
    "DetectionBoxes_Recall/AR@10",
    "DetectionBoxes_Recall/AR@100",
    "DetectionBoxes_Recall/AR@100 (small)",
    "DetectionBoxes_Recall/AR@100 (medium)",
    "DetectionBoxes_Recall/AR@100 (large)",
)
"""COCO's twelve metrics of boxes, always reported, in the order of its summary."""

MASK_METRICS = tuple(name.replace("DetectionBoxes", "DetectionMasks") for name in COCO_METRICS)
"""COCO's twelve metrics of masks."""
KEYPOINT_METRICS = (
    "Keypoints_Precision/mAP",
    "Keypoints_Precision/mAP@.50IOU",
    "Keypoints_Precision/mAP@.75IOU",
    "Keypoints_Precision/mAP (medium)",
    "Keypoints_Precision/mAP (large)",
    "Keypoints_Recall/AR@1",
    "Keypoints_Recall/AR@10",
    "Keypoints_Recall/AR@100",
    "Keypoints_Recall/AR@100 (medium)",
    "Keypoints_Recall/AR@100 (large)",
)
"""COCO's ten metrics of keypoints, by object keypoint similarity (OKS), in the order of its summary.

COCO counts at most 20 detections per image. In the Object Detection API's names, AR@1 is the recall over all
thresholds. AR@10 is the recall at 0.5, and AR@100 the recall at 0.75. These names stay, because charts and
gates use them.
"""
SHAPE_METRICS = {"coco_mask_metrics": MASK_METRICS, "coco_keypoint_metrics": KEYPOINT_METRICS}
"""Maps a metrics set of `eval_config` to the metrics that it adds to those of boxes."""

CATEGORY_PREFIX = "DetectionBoxes_PerformanceByCategory/mAP/"
GROUP_PREFIX = "DetectionBoxes_PerformanceBySuperCategory/"
NOTHING_TO_MEASURE = -1.0
"""COCO's value of a metric for which the split has no object."""


def category_metric(name: str, of: str = MAP) -> str:
    """Return the name of a class's AP; `of` is the mAP of boxes, masks or keypoints."""
    return CATEGORY_PREFIX.replace(metric_prefix(MAP), metric_prefix(of)) + name


def group_metric(name: str, of: str = MAP) -> str:
    """Return the name of the mean AP over a group of classes; `of` as in `category_metric`."""
    return GROUP_PREFIX.replace(metric_prefix(MAP), metric_prefix(of)) + name


def metric_prefix(metric: str) -> str:
    """Return the prefix of a metrics set's names, such as `DetectionBoxes`."""
    return metric.partition("_")[0]


def is_measured(value: float | None) -> bool:
    """Return whether a metric has a value: not missing, not NaN, and not COCO's -1."""
    return value is not None and math.isfinite(value) and value != NOTHING_TO_MEASURE
