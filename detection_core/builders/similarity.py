"""RegionSimilarityCalculator messages to similarities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detection_core.builders.oneof import build_oneof
from detection_core.ops import iou as iou_ops
from detection_core.ops.similarities import Similarity, ThresholdedIou, negative_squared_distance
from detection_core.protos import region_similarity_calculator_pb2

SIMILARITIES: dict[str, Callable[[Any], Similarity]] = {
    "ioa_similarity": lambda message: iou_ops.ioa,
    "iou_similarity": lambda message: iou_ops.iou,
    "neg_sq_dist_similarity": lambda message: negative_squared_distance,
    "thresholded_iou_similarity": lambda message: ThresholdedIou(iou_threshold=message.iou_threshold),
}


def build_similarity(
    message: region_similarity_calculator_pb2.RegionSimilarityCalculator,
) -> Similarity:
    """Build the similarity that a checked message describes, of rows [..., G, 4] and columns [..., A, 4]."""
    return build_oneof(message, "region_similarity", SIMILARITIES)
