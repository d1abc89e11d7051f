"""AnchorGenerator messages to anchor generators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from detection_core.anchors.base import AnchorGenerator
from detection_core.anchors.flexible_grid import AnchorGrid, FlexibleGridAnchorGenerator
from detection_core.anchors.grid import GridAnchorGenerator, GridAnchorOptions
from detection_core.anchors.multiscale import MultiscaleAnchorGenerator, MultiscaleAnchorOptions
from detection_core.anchors.ssd import SsdAnchorGenerator, SsdAnchorOptions
from detection_core.builders.oneof import build_oneof
from detection_core.errors import ConfigError
from detection_core.protos import (
    anchor_generator_pb2,
    flexible_grid_anchor_generator_pb2,
    grid_anchor_generator_pb2,
    multiscale_anchor_generator_pb2,
    ssd_anchor_generator_pb2,
)


def _require_positive(name: str, values: Sequence[float]) -> None:
    wrong = [value for value in values if not value > 0]
    if wrong:
        raise ConfigError(f"expected {name} above 0, found {wrong[0]:g}")


def _grid(message: grid_anchor_generator_pb2.GridAnchorGenerator) -> AnchorGenerator:
    _require_positive("aspect_ratios", message.aspect_ratios)
    options = GridAnchorOptions(
        height=float(message.height),
        width=float(message.width),
        stride=(float(message.height_stride), float(message.width_stride)),
        offset=(float(message.height_offset), float(message.width_offset)),
        scales=tuple(message.scales),
        aspect_ratios=tuple(message.aspect_ratios),
    )
    return GridAnchorGenerator(options)


def _pairs(
    y_name: str, y_values: Sequence[int], x_name: str, x_values: Sequence[int], layers: int
) -> tuple[tuple[float, float], ...]:
    """Join the per-layer values of the two axes: both empty, or one of each a layer."""
    if not y_values and not x_values:
        return ()
    if len(y_values) != layers or len(x_values) != layers:
        raise ConfigError(
            f"expected {layers} values of {y_name} and of {x_name}, one a layer, or none of either; "
            f"found {len(y_values)} and {len(x_values)}"
        )
    return tuple((float(y), float(x)) for y, x in zip(y_values, x_values, strict=True))


def _ssd(message: ssd_anchor_generator_pb2.SsdAnchorGenerator) -> AnchorGenerator:
    layers = message.num_layers
    _require_positive("num_layers", [layers])
    _require_positive("aspect_ratios", message.aspect_ratios)
    if message.scales and len(message.scales) < layers:
        raise ConfigError(
            f"expected at least {layers} scales, one a layer, found {len(message.scales)}; give one a layer "
            "or none, to have them spread from min_scale to max_scale"
        )
    strides = _pairs("height_stride", message.height_stride, "width_stride", message.width_stride, layers)
    offsets = _pairs("height_offset", message.height_offset, "width_offset", message.width_offset, layers)
    options = SsdAnchorOptions(
        num_layers=layers,
        min_scale=message.min_scale,
        max_scale=message.max_scale,
        scales=tuple(message.scales),
        aspect_ratios=tuple(message.aspect_ratios),
        interpolated_scale_aspect_ratio=message.interpolated_scale_aspect_ratio,
        reduce_boxes_in_lowest_layer=message.reduce_boxes_in_lowest_layer,
        base_anchor_height=message.base_anchor_height,
        base_anchor_width=message.base_anchor_width,
        strides=strides,
        offsets=offsets,
    )
    return SsdAnchorGenerator(options)


def _multiscale(message: multiscale_anchor_generator_pb2.MultiscaleAnchorGenerator) -> AnchorGenerator:
    _require_positive("anchor_scale", [message.anchor_scale])
    _require_positive("scales_per_octave", [message.scales_per_octave])
    _require_positive("aspect_ratios", message.aspect_ratios)
    if message.max_level < message.min_level:
        raise ConfigError(
            f"expected max_level of at least min_level {message.min_level}, found {message.max_level}"
        )
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
    if len(message.base_sizes) != len(message.aspect_ratios):
        raise ConfigError(
            "expected as many aspect_ratios as base_sizes in each anchor_grid, found "
            f"{len(message.aspect_ratios)} and {len(message.base_sizes)}; they are taken in pairs"
        )
    _require_positive("aspect_ratios", message.aspect_ratios)
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


def build_anchor_generator(
    message: anchor_generator_pb2.AnchorGenerator, where: str = "anchor_generator"
) -> AnchorGenerator:
    """Build the anchor generator that a message describes.

    Args:
        message: the message.
        where: its path in the configuration, for errors.

    Returns:
        The generator.

    Raises:
        ConfigError: when none is set, or its values contradict each other.
    """
    return build_oneof(message, "anchor_generator_oneof", ANCHOR_GENERATORS, where)
