"""Names of the metrics that an evaluation reports: those of the Object Detection API, for COCO's measures.

The measures are defined by the COCO detection evaluation (Lin et al., Microsoft COCO: Common Objects in
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
"""COCO's twelve numbers, which are always reported, in the order of its summary."""

MASK_METRICS = tuple(name.replace("DetectionBoxes", "DetectionMasks") for name in COCO_METRICS)
"""COCO's twelve numbers of masks."""
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
"""COCO's ten numbers of keypoints, by object keypoint similarity in place of overlap, in its own order.

COCO counts 20 detections an image. The Object Detection API names the recall over all thresholds AR@1, the
recall at 0.5 AR@10 and the one at 0.75 AR@100; the names stay, as charts and gates know them.
"""
SHAPE_METRICS = {"coco_mask_metrics": MASK_METRICS, "coco_keypoint_metrics": KEYPOINT_METRICS}
"""Set of metrics of an `eval_config` to the numbers that it adds to those of boxes."""

CATEGORY_PREFIX = "DetectionBoxes_PerformanceByCategory/mAP/"
GROUP_PREFIX = "DetectionBoxes_PerformanceBySuperCategory/"
NOTHING_TO_MEASURE = -1.0
"""COCO's value of a metric of which the split has no object."""


def category_metric(name: str, of: str = MAP) -> str:
    """Return the name under which a class's own mAP is reported, of boxes or what else `of` is the mAP of."""
    return CATEGORY_PREFIX.replace(metric_prefix(MAP), metric_prefix(of)) + name


def group_metric(name: str, of: str = MAP) -> str:
    """Return the name under which the mean mAP of a group of classes is reported; `of` as above."""
    return GROUP_PREFIX.replace(metric_prefix(MAP), metric_prefix(of)) + name


def metric_prefix(metric: str) -> str:
    """Return what the names of a set of metrics begin with, such as `DetectionBoxes`."""
    return metric.partition("_")[0]


def is_measured(value: float | None) -> bool:
    """Tell whether a metric has a value: not missing, not NaN, and not COCO's -1."""
    return value is not None and math.isfinite(value) and value != NOTHING_TO_MEASURE
