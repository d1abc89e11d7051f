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
"""COCO's twelve numbers, which are always reported, in the order of its own summary."""

CATEGORY_PREFIX = "DetectionBoxes_PerformanceByCategory/mAP/"
GROUP_PREFIX = "DetectionBoxes_PerformanceBySuperCategory/"
NOTHING_TO_MEASURE = -1.0
"""COCO's value of a metric of which the split has no object."""


def category_metric(name: str) -> str:
    """Return the name under which a class's own mAP is reported."""
    return CATEGORY_PREFIX + name


def group_metric(name: str) -> str:
    """Return the name under which the mean mAP of a group of classes is reported."""
    return GROUP_PREFIX + name


def is_measured(value: float | None) -> bool:
    """Tell whether a metric has a value: not missing, not NaN, and not COCO's -1."""
    return value is not None and math.isfinite(value) and value != NOTHING_TO_MEASURE
