"""Anchors: generators and the number of anchors, box codes, and matchers to objects."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from detection_core.detectors.rules import Check
from detection_core.errors import Problem
from detection_core.protos.anchor_generator_pb2 import AnchorGenerator
from detection_core.protos.argmax_matcher_pb2 import ArgMaxMatcher
from detection_core.protos.box_coder_pb2 import BoxCoder
from detection_core.protos.multiscale_anchor_generator_pb2 import MultiscaleAnchorGenerator
from detection_core.protos.ssd_anchor_generator_pb2 import SsdAnchorGenerator

MAX_PER_LOCATION = 1_000
_REDUCED = 3  # anchors of the lowest layer if reduce_boxes_in_lowest_layer is true


def ssd_anchor_layers(message: SsdAnchorGenerator) -> int:
    """Return the number of layers: the smaller one of `num_layers` and the number of `scales`.

    The Object Detection API's `create_ssd_anchors` also stops at the end of the shorter list.
    """
    return min(message.num_layers, len(message.scales)) if message.scales else message.num_layers


def anchors_per_location(generator: AnchorGenerator) -> list[int]:
    """Count the anchors per cell of each feature map; [] if no generator is set."""
    arm = str(generator.WhichOneof("anchor_generator_oneof"))
    return _COUNTS[arm](getattr(generator, arm)) if arm in _COUNTS else []


def layer_count(generator: AnchorGenerator) -> int:
    """Count the layers of an unchecked anchor generator; 0 if none is set.

    They are not listed, because their number is not bounded yet.
    """
    arm = generator.WhichOneof("anchor_generator_oneof")
    if arm == "ssd_anchor_generator":
        return ssd_anchor_layers(generator.ssd_anchor_generator)
    if arm == "multiscale_anchor_generator":
        multiscale = generator.multiscale_anchor_generator
        return max(multiscale.max_level - multiscale.min_level + 1, 0)
    return len(generator.flexible_grid_anchor_generator.anchor_grid) if arm != "grid_anchor_generator" else 1


def layer_field(generator: AnchorGenerator) -> str:
    """Return the field, with a leading dot, that sets a generator's number of layers."""
    if generator.HasField("ssd_anchor_generator"):
        message = generator.ssd_anchor_generator
        return ".scales" if 0 < len(message.scales) < message.num_layers else ".num_layers"
    return ".anchor_grid" if generator.HasField("flexible_grid_anchor_generator") else ""


def _count_ssd(message: SsdAnchorGenerator) -> list[int]:
    layers = ssd_anchor_layers(message)
    each = len(message.aspect_ratios) + int(message.interpolated_scale_aspect_ratio > 0.0)
    lowest = _REDUCED if message.reduce_boxes_in_lowest_layer else each
    return [lowest, *[each] * (layers - 1)] if layers > 0 else []


_COUNTS: dict[str, Callable[[Any], list[int]]] = {
    "flexible_grid_anchor_generator": lambda message: [len(grid.base_sizes) for grid in message.anchor_grid],
    "grid_anchor_generator": lambda message: [len(message.scales) * len(message.aspect_ratios)],
    "multiscale_anchor_generator": lambda message: (
        [len(message.aspect_ratios) * message.scales_per_octave] * (message.max_level - message.min_level + 1)
    ),
    "ssd_anchor_generator": _count_ssd,
}


def _some(count: int, path: str) -> Iterator[Problem]:
    if count < 1:
        text = "expected at least one ratio of width to height, found none; add aspect_ratios: 1.0"
        yield Problem(path=path, message=text)
    if count > MAX_PER_LOCATION:
        text = f"expected at most {MAX_PER_LOCATION:,} anchors at each place, found {count:,}; give fewer"
        yield Problem(path=path, message=text)


def _multiscale(message: MultiscaleAnchorGenerator, path: str) -> Iterator[Problem]:
    yield from _some(len(message.aspect_ratios), f"{path}.aspect_ratios")
    per_octave = message.scales_per_octave
    yield from _some(max(len(message.aspect_ratios), 1) * max(per_octave, 1), f"{path}.scales_per_octave")


def _ssd(message: SsdAnchorGenerator, path: str) -> Iterator[Problem]:
    layers = ssd_anchor_layers(message)
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


_CODE_SIZES = {"faster_rcnn_box_coder": 4, "mean_stddev_box_coder": 4, "square_box_coder": 3}


def code_size(coder: BoxCoder) -> int:
    """Return the length of a box code; 0 if no coder is set."""
    if coder.HasField("keypoint_box_coder"):
        return 4 + 2 * coder.keypoint_box_coder.num_keypoints
    return _CODE_SIZES.get(str(coder.WhichOneof("box_coder_oneof")), 0)


def _argmax(message: ArgMaxMatcher, path: str) -> Iterator[Problem]:
    equal = message.unmatched_threshold == message.matched_threshold
    if equal and not message.ignore_thresholds and not message.negatives_lower_than_unmatched:
        text = "expected true, as unmatched_threshold equals matched_threshold, found false"
        yield Problem(path=f"{path}.negatives_lower_than_unmatched", message=text)


CHECKS: Mapping[str, Check] = {
    "SsdAnchorGenerator": _ssd,
    "MultiscaleAnchorGenerator": _multiscale,
    "AnchorGrid": lambda message, path: _some(len(message.base_sizes), f"{path}.base_sizes"),
    "ArgMaxMatcher": _argmax,
}
