"""Build anchor generators, box coders, matchers and similarities from their messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from detection_core.builders.oneof import build_oneof, from_fields, same_fields
from detection_core.config.messages.anchors import ssd_anchor_layers
from detection_core.ops import iou as iou_ops
from detection_core.ops.iou import Similarity, ThresholdedIou, negative_squared_distance
from detection_core.parts.anchors.generators import (
    AnchorGenerator,
    AnchorGrid,
    FlexibleGridAnchorGenerator,
    GridAnchorGenerator,
    GridAnchorOptions,
    MultiscaleAnchorGenerator,
    MultiscaleAnchorOptions,
    SsdAnchorGenerator,
    SsdAnchorOptions,
)
from detection_core.parts.box_coders import (
    BoxCoder,
    FasterRcnnBoxCoder,
    KeypointBoxCoder,
    MeanStddevBoxCoder,
    SquareBoxCoder,
)
from detection_core.parts.matchers import ArgMaxMatcher, ArgMaxMatcherOptions, GreedyBipartiteMatcher, Matcher
from detection_core.protos import (
    anchor_generator_pb2,
    argmax_matcher_pb2,
    box_coder_pb2,
    flexible_grid_anchor_generator_pb2,
    grid_anchor_generator_pb2,
    keypoint_box_coder_pb2,
    matcher_pb2,
    multiscale_anchor_generator_pb2,
    region_similarity_calculator_pb2,
    ssd_anchor_generator_pb2,
)


def _grid(message: grid_anchor_generator_pb2.GridAnchorGenerator) -> AnchorGenerator:
    options = GridAnchorOptions(
        height=float(message.height),
        width=float(message.width),
        stride=(float(message.height_stride), float(message.width_stride)),
        offset=(float(message.height_offset), float(message.width_offset)),
        scales=tuple(message.scales),
        aspect_ratios=tuple(message.aspect_ratios),
    )
    return GridAnchorGenerator(options)


def _pairs(y_values: Sequence[int], x_values: Sequence[int]) -> tuple[tuple[float, float], ...]:
    """Pair the per-layer values of the two axes."""
    return tuple((float(y), float(x)) for y, x in zip(y_values, x_values, strict=True))


def _ssd(message: ssd_anchor_generator_pb2.SsdAnchorGenerator) -> AnchorGenerator:
    options = from_fields(
        SsdAnchorOptions,
        message,
        num_layers=ssd_anchor_layers(message),
        strides=_pairs(message.height_stride, message.width_stride),
        offsets=_pairs(message.height_offset, message.width_offset),
    )
    return SsdAnchorGenerator(options)


def _multiscale(message: multiscale_anchor_generator_pb2.MultiscaleAnchorGenerator) -> AnchorGenerator:
    return MultiscaleAnchorGenerator(from_fields(MultiscaleAnchorOptions, message))


def _anchor_grid(message: flexible_grid_anchor_generator_pb2.AnchorGrid) -> AnchorGrid:
    return from_fields(
        AnchorGrid,
        message,
        stride=(float(message.height_stride), float(message.width_stride)),
        offset=(float(message.height_offset), float(message.width_offset)),
    )


def _flexible_grid(
    message: flexible_grid_anchor_generator_pb2.FlexibleGridAnchorGenerator,
) -> AnchorGenerator:
    grids = tuple(_anchor_grid(grid) for grid in message.anchor_grid)
    return FlexibleGridAnchorGenerator(grids, normalize_coordinates=message.normalize_coordinates)


ANCHOR_GENERATORS: dict[str, Callable[[Any], AnchorGenerator]] = {
    "flexible_grid_anchor_generator": _flexible_grid,
    "grid_anchor_generator": _grid,
    "multiscale_anchor_generator": _multiscale,
    "ssd_anchor_generator": _ssd,
}


def build_anchor_generator(message: anchor_generator_pb2.AnchorGenerator) -> AnchorGenerator:
    """Build the anchor generator of a checked message."""
    return build_oneof(message, "anchor_generator_oneof", ANCHOR_GENERATORS)


def _keypoint(message: keypoint_box_coder_pb2.KeypointBoxCoder) -> BoxCoder:
    return from_fields(KeypointBoxCoder, message, box_coder=from_fields(FasterRcnnBoxCoder, message))


BOX_CODERS: dict[str, Callable[[Any], BoxCoder]] = {
    "faster_rcnn_box_coder": same_fields(FasterRcnnBoxCoder),
    "keypoint_box_coder": _keypoint,
    "mean_stddev_box_coder": same_fields(MeanStddevBoxCoder),
    "square_box_coder": same_fields(SquareBoxCoder),
}


def build_box_coder(message: box_coder_pb2.BoxCoder) -> BoxCoder:
    """Build the box coder of a checked message."""
    return build_oneof(message, "box_coder_oneof", BOX_CODERS)


# `use_matmul_gather` only selects a TPU kernel; matches do not depend on it.
def _argmax(message: argmax_matcher_pb2.ArgMaxMatcher) -> Matcher:
    unset = {"matched_threshold": None, "unmatched_threshold": None} if message.ignore_thresholds else {}
    return ArgMaxMatcher(from_fields(ArgMaxMatcherOptions, message, **unset))


MATCHERS: dict[str, Callable[[Any], Matcher]] = {
    "argmax_matcher": _argmax,
    "bipartite_matcher": same_fields(GreedyBipartiteMatcher),
}


def build_matcher(message: matcher_pb2.Matcher) -> Matcher:
    """Build the matcher of a checked message."""
    return build_oneof(message, "matcher_oneof", MATCHERS)


SIMILARITIES: dict[str, Callable[[Any], Similarity]] = {
    "ioa_similarity": lambda message: iou_ops.ioa,
    "iou_similarity": lambda message: iou_ops.iou,
    "neg_sq_dist_similarity": lambda message: negative_squared_distance,
    "thresholded_iou_similarity": same_fields(ThresholdedIou),
}


def build_similarity(
    message: region_similarity_calculator_pb2.RegionSimilarityCalculator,
) -> Similarity:
    """Build the similarity of a checked message, for rows [..., G, 4] and columns [..., A, 4]."""
    return build_oneof(message, "region_similarity", SIMILARITIES)
