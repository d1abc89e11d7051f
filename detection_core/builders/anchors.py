"""Build anchor generators, box coders, matchers and similarities from their messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from detection_core.builders.oneof import build_oneof
from detection_core.config.messages.anchors import ssd_anchor_layers
from detection_core.ops import iou as iou_ops
from detection_core.ops.iou import Similarity, ThresholdedIou, negative_squared_distance
from detection_core.parts.anchors.base import AnchorGenerator
from detection_core.parts.anchors.generators import (
    AnchorGrid,
    FlexibleGridAnchorGenerator,
    GridAnchorGenerator,
    GridAnchorOptions,
    MultiscaleAnchorGenerator,
    MultiscaleAnchorOptions,
    SsdAnchorGenerator,
    SsdAnchorOptions,
)
from detection_core.parts.box_coders.base import BoxCoder
from detection_core.parts.box_coders.coders import (
    FasterRcnnBoxCoder,
    KeypointBoxCoder,
    MeanStddevBoxCoder,
    SquareBoxCoder,
)
from detection_core.parts.matchers.base import Matcher
from detection_core.parts.matchers.matchers import ArgMaxMatcher, ArgMaxMatcherOptions, GreedyBipartiteMatcher
from detection_core.protos import (
    anchor_generator_pb2,
    argmax_matcher_pb2,
    bipartite_matcher_pb2,
    box_coder_pb2,
    faster_rcnn_box_coder_pb2,
    flexible_grid_anchor_generator_pb2,
    grid_anchor_generator_pb2,
    keypoint_box_coder_pb2,
    matcher_pb2,
    mean_stddev_box_coder_pb2,
    multiscale_anchor_generator_pb2,
    region_similarity_calculator_pb2,
    square_box_coder_pb2,
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
    options = SsdAnchorOptions(
        num_layers=ssd_anchor_layers(message),
        min_scale=message.min_scale,
        max_scale=message.max_scale,
        scales=tuple(message.scales),
        aspect_ratios=tuple(message.aspect_ratios),
        interpolated_scale_aspect_ratio=message.interpolated_scale_aspect_ratio,
        reduce_boxes_in_lowest_layer=message.reduce_boxes_in_lowest_layer,
        base_anchor_height=message.base_anchor_height,
        base_anchor_width=message.base_anchor_width,
        strides=_pairs(message.height_stride, message.width_stride),
        offsets=_pairs(message.height_offset, message.width_offset),
    )
    return SsdAnchorGenerator(options)


def _multiscale(message: multiscale_anchor_generator_pb2.MultiscaleAnchorGenerator) -> AnchorGenerator:
    options = MultiscaleAnchorOptions(
        min_level=message.min_level,
        max_level=message.max_level,
        anchor_scale=message.anchor_scale,
        aspect_ratios=tuple(message.aspect_ratios),
        scales_per_octave=message.scales_per_octave,
        normalize_coordinates=message.normalize_coordinates,
    )
    return MultiscaleAnchorGenerator(options)


def _anchor_grid(message: flexible_grid_anchor_generator_pb2.AnchorGrid) -> AnchorGrid:
    return AnchorGrid(
        base_sizes=tuple(message.base_sizes),
        aspect_ratios=tuple(message.aspect_ratios),
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


def _faster_rcnn(
    message: faster_rcnn_box_coder_pb2.FasterRcnnBoxCoder | keypoint_box_coder_pb2.KeypointBoxCoder,
) -> FasterRcnnBoxCoder:
    return FasterRcnnBoxCoder(
        y_scale=message.y_scale,
        x_scale=message.x_scale,
        height_scale=message.height_scale,
        width_scale=message.width_scale,
    )


def _keypoint(message: keypoint_box_coder_pb2.KeypointBoxCoder) -> BoxCoder:
    return KeypointBoxCoder(num_keypoints=message.num_keypoints, box_coder=_faster_rcnn(message))


def _mean_stddev(message: mean_stddev_box_coder_pb2.MeanStddevBoxCoder) -> BoxCoder:
    return MeanStddevBoxCoder(stddev=message.stddev)


def _square(message: square_box_coder_pb2.SquareBoxCoder) -> BoxCoder:
    return SquareBoxCoder(y_scale=message.y_scale, x_scale=message.x_scale, length_scale=message.length_scale)


BOX_CODERS: dict[str, Callable[[Any], BoxCoder]] = {
    "faster_rcnn_box_coder": _faster_rcnn,
    "keypoint_box_coder": _keypoint,
    "mean_stddev_box_coder": _mean_stddev,
    "square_box_coder": _square,
}


def build_box_coder(message: box_coder_pb2.BoxCoder) -> BoxCoder:
    """Build the box coder of a checked message."""
    return build_oneof(message, "box_coder_oneof", BOX_CODERS)


# `use_matmul_gather` only selects a TPU kernel; matches do not depend on it.
def _argmax(message: argmax_matcher_pb2.ArgMaxMatcher) -> Matcher:
    thresholds = None if message.ignore_thresholds else message
    options = ArgMaxMatcherOptions(
        matched_threshold=thresholds.matched_threshold if thresholds else None,
        unmatched_threshold=thresholds.unmatched_threshold if thresholds else None,
        negatives_lower_than_unmatched=message.negatives_lower_than_unmatched,
        force_match_for_each_row=message.force_match_for_each_row,
    )
    return ArgMaxMatcher(options)


def _bipartite(message: bipartite_matcher_pb2.BipartiteMatcher) -> Matcher:
    del message  # Its only field, `use_matmul_gather`, has no effect, as above.
    return GreedyBipartiteMatcher()


MATCHERS: dict[str, Callable[[Any], Matcher]] = {
    "argmax_matcher": _argmax,
    "bipartite_matcher": _bipartite,
}


def build_matcher(message: matcher_pb2.Matcher) -> Matcher:
    """Build the matcher of a checked message."""
    return build_oneof(message, "matcher_oneof", MATCHERS)


SIMILARITIES: dict[str, Callable[[Any], Similarity]] = {
    "ioa_similarity": lambda message: iou_ops.ioa,
    "iou_similarity": lambda message: iou_ops.iou,
    "neg_sq_dist_similarity": lambda message: negative_squared_distance,
    "thresholded_iou_similarity": lambda message: ThresholdedIou(iou_threshold=message.iou_threshold),
}


def build_similarity(
    message: region_similarity_calculator_pb2.RegionSimilarityCalculator,
) -> Similarity:
    """Build the similarity of a checked message, for rows [..., G, 4] and columns [..., A, 4]."""
    return build_oneof(message, "region_similarity", SIMILARITIES)
