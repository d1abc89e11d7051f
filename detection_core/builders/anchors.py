"""AnchorGenerator messages to anchor generators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from detection_core.builders.oneof import build_oneof
from detection_core.config.messages.anchors import ssd_anchor_layers
from detection_core.parts.anchors.base import AnchorGenerator
from detection_core.parts.anchors.flexible_grid import AnchorGrid, FlexibleGridAnchorGenerator
from detection_core.parts.anchors.grid import GridAnchorGenerator, GridAnchorOptions
from detection_core.parts.anchors.multiscale import (
    MultiscaleAnchorGenerator,
    MultiscaleAnchorOptions,
)
from detection_core.parts.anchors.ssd_anchors import SsdAnchorGenerator, SsdAnchorOptions
from detection_core.protos import (
    anchor_generator_pb2,
    flexible_grid_anchor_generator_pb2,
    grid_anchor_generator_pb2,
    multiscale_anchor_generator_pb2,
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
    """Join the per-layer values of the two axes."""
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
    """Build the anchor generator that a checked message describes."""
    return build_oneof(message, "anchor_generator_oneof", ANCHOR_GENERATORS)
