"""Anchor generators: how many anchors they lay, and whether they fit the feature maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from detection_core.config.messages.extractors import EXTRACTORS, map_levels
from detection_core.config.problems import Problem
from detection_core.protos.anchor_generator_pb2 import AnchorGenerator
from detection_core.protos.flexible_grid_anchor_generator_pb2 import FlexibleGridAnchorGenerator
from detection_core.protos.grid_anchor_generator_pb2 import GridAnchorGenerator
from detection_core.protos.multiscale_anchor_generator_pb2 import MultiscaleAnchorGenerator
from detection_core.protos.ssd_anchor_generator_pb2 import SsdAnchorGenerator
from detection_core.protos.ssd_pb2 import Ssd

MAX_PER_LOCATION = 1_000
_REDUCED = 3  # anchors of the lowest layer, where reduce_boxes_in_lowest_layer says so


def ssd_anchor_layers(message: SsdAnchorGenerator) -> int:
    """Return the number of layers: `scales` beyond `num_layers` are left out, and the reverse.

    As in the Object Detection API, whose `create_ssd_anchors` walks both together to the end of the shorter.
    """
    return min(message.num_layers, len(message.scales)) if message.scales else message.num_layers


def anchors_per_location(generator: AnchorGenerator) -> list[int]:
    """Count the anchors that each cell of each feature map has; [] where no generator is set."""
    arm = str(generator.WhichOneof("anchor_generator_oneof"))
    return _COUNTS[arm](getattr(generator, arm)) if arm in _COUNTS else []


def anchor_problems(generator: AnchorGenerator, path: str) -> Iterator[Problem]:
    """Find what is wrong with a generator by itself.

    Args:
        generator: the message with the oneof.
        path: its field path.
    """
    arm = str(generator.WhichOneof("anchor_generator_oneof"))
    if arm in _PROBLEMS:
        yield from _PROBLEMS[arm](getattr(generator, arm), f"{path}.{arm}")


def fitting_problems(ssd: Ssd, path: str) -> Iterator[Problem]:
    """Find what keeps a generator's anchors from covering exactly the feature maps of the extractor.

    Args:
        ssd: the model.
        path: its field path.
    """
    generator, extractor = ssd.anchor_generator, ssd.feature_extractor
    arm = str(generator.WhichOneof("anchor_generator_oneof"))
    if arm not in _COUNTS:
        return
    place, message = f"{path}.anchor_generator.{arm}", getattr(generator, arm)
    if not _is_normalised(arm, message):
        text = "expected anchors as fractions of the image, found anchors in pixels; "
        text += "use another generator" if arm.startswith("grid") else "set normalize_coordinates: true"
        yield Problem(path=place, message=text)
    levels = map_levels(extractor)
    if levels is None:
        return
    source = _source(extractor)
    if arm == "multiscale_anchor_generator":
        if levels and (message.min_level, message.max_level) != (levels[0], levels[-1]):
            found = f"{message.min_level} to {message.max_level}"
            text = f"expected levels {levels[0]} to {levels[-1]} as {source} has, found {found}"
            yield Problem(path=place, message=text)
    elif _layers(arm, message) != len(levels):
        text = (
            f"expected {len(levels)} layers as {source} gives, found {_layers(arm, message)}; make the two"
            " equal"
        )
        yield Problem(path=f"{place}{_layers_field(arm, message)}", message=text)


def _source(extractor: Any) -> str:
    neck = EXTRACTORS[extractor.type].neck
    return "feature_extractor.num_layers" if neck == "extra_layers" else f"feature_extractor.{neck}"


def _is_normalised(arm: str, message: Any) -> bool:
    return arm == "ssd_anchor_generator" or bool(getattr(message, "normalize_coordinates", False))


def _layers(arm: str, message: Any) -> int:
    """Count the layers without listing them, as their number is not checked yet."""
    if arm == "ssd_anchor_generator":
        return ssd_anchor_layers(message)
    return len(message.anchor_grid) if arm == "flexible_grid_anchor_generator" else 1


def _layers_field(arm: str, message: Any) -> str:
    """Return the field that decides how many layers there are."""
    if arm == "ssd_anchor_generator":
        return ".scales" if 0 < len(message.scales) < message.num_layers else ".num_layers"
    return ".anchor_grid" if arm == "flexible_grid_anchor_generator" else ""


def _count_ssd(message: SsdAnchorGenerator) -> list[int]:
    layers = ssd_anchor_layers(message)
    each = len(message.aspect_ratios) + int(message.interpolated_scale_aspect_ratio > 0.0)
    lowest = _REDUCED if message.reduce_boxes_in_lowest_layer else each
    return [lowest, *[each] * (layers - 1)] if layers > 0 else []


def _count_multiscale(message: MultiscaleAnchorGenerator) -> list[int]:
    levels = max(message.max_level - message.min_level + 1, 0)
    return [len(message.aspect_ratios) * message.scales_per_octave] * levels


def _count_grid(message: GridAnchorGenerator) -> list[int]:
    return [len(message.scales) * len(message.aspect_ratios)]


def _count_flexible(message: FlexibleGridAnchorGenerator) -> list[int]:
    return [len(grid.base_sizes) for grid in message.anchor_grid]


_COUNTS: dict[str, Callable[[Any], list[int]]] = {
    "flexible_grid_anchor_generator": _count_flexible,
    "grid_anchor_generator": _count_grid,
    "multiscale_anchor_generator": _count_multiscale,
    "ssd_anchor_generator": _count_ssd,
}


def _positive(values: Sequence[float], path: str) -> Iterator[Problem]:
    wrong = next((i for i, value in enumerate(values) if not value > 0), -1)
    if wrong >= 0:
        text = f"expected a number above 0, found {values[wrong]:g}"
        yield Problem(path=f"{path}[{wrong}]", message=text)


def _some(count: int, path: str) -> Iterator[Problem]:
    """Find a cell without anchors, or with more than anybody means."""
    if count < 1:
        text = "expected at least one ratio of width to height, found none; add aspect_ratios: 1.0"
        yield Problem(path=path, message=text)
    if count > MAX_PER_LOCATION:
        text = f"expected at most {MAX_PER_LOCATION:,} anchors at each place, found {count:,}; give fewer"
        yield Problem(path=path, message=text)


def _multiscale(message: MultiscaleAnchorGenerator, path: str) -> Iterator[Problem]:
    yield from _positive(message.aspect_ratios, f"{path}.aspect_ratios")
    yield from _some(len(message.aspect_ratios), f"{path}.aspect_ratios")
    per_octave = message.scales_per_octave
    yield from _some(max(len(message.aspect_ratios), 1) * max(per_octave, 1), f"{path}.scales_per_octave")
    if message.max_level < message.min_level:
        text = f"expected at most max_level, which is {message.max_level}, found {message.min_level}"
        yield Problem(path=f"{path}.min_level", message=text)


def _ssd(message: SsdAnchorGenerator, path: str) -> Iterator[Problem]:
    layers = ssd_anchor_layers(message)
    yield from _positive(message.aspect_ratios, f"{path}.aspect_ratios")
    yield from _positive(message.scales, f"{path}.scales")
    if layers > int(message.reduce_boxes_in_lowest_layer):
        ratios = len(message.aspect_ratios) + int(message.interpolated_scale_aspect_ratio > 0.0)
        yield from _some(ratios, f"{path}.aspect_ratios")
    for kind in ("stride", "offset"):
        for axis in ("height", "width"):
            count = len(getattr(message, f"{axis}_{kind}"))
            if count not in (0, layers):
                text = f"expected none or one for each of {layers} layers, found {count}"
                yield Problem(path=f"{path}.{axis}_{kind}", message=text)
        if len(getattr(message, f"height_{kind}")) != len(getattr(message, f"width_{kind}")):
            text = f"expected as many as height_{kind}; give both"
            yield Problem(path=f"{path}.width_{kind}", message=text)


def _grid(message: GridAnchorGenerator, path: str) -> Iterator[Problem]:
    yield from _positive(message.aspect_ratios, f"{path}.aspect_ratios")
    yield from _positive(message.scales, f"{path}.scales")


def _flexible(message: FlexibleGridAnchorGenerator, path: str) -> Iterator[Problem]:
    for i, grid in enumerate(message.anchor_grid):
        place = f"{path}.anchor_grid[{i}]"
        if len(grid.base_sizes) != len(grid.aspect_ratios):
            text = (
                f"expected as many as base_sizes, which are {len(grid.base_sizes)}, found"
                f" {len(grid.aspect_ratios)}; they are taken in pairs"
            )
            yield Problem(path=f"{place}.aspect_ratios", message=text)
        yield from _positive(grid.aspect_ratios, f"{place}.aspect_ratios")
        yield from _some(len(grid.base_sizes), f"{place}.base_sizes")


_PROBLEMS: dict[str, Callable[[Any, str], Iterator[Problem]]] = {
    "flexible_grid_anchor_generator": _flexible,
    "grid_anchor_generator": _grid,
    "multiscale_anchor_generator": _multiscale,
    "ssd_anchor_generator": _ssd,
}
