"""The parts of a network that quantization is looked at by: backbone stages, feature network, heads."""

from __future__ import annotations

import math

from detection_core.quantization.graph import LayerCall, NetworkGraph

BACKBONE = "backbone"
OTHER = "other"
_PARTS = {
    ("backbone_",): BACKBONE,
    ("fpn_", "bifpn_", "extra_", "WSM"): "feature network",
    ("class_",): "class head",
    ("box_",): "box head",
    ("segmentation_",): "segmentation head",
    ("head_", "tower_"): "shared head",
}
"""Beginnings of a layer's name, as `parts` and the families give it, to the part."""


def layer_groups(graph: NetworkGraph) -> dict[str, str]:
    """Name the part of the network that each call is in, inputs left out.

    The backbone is taken apart by the stride of its feature maps: `backbone, stride 8`.

    Args:
        graph: of a network whose layers have one call each.
    """
    groups: dict[str, str] = {}
    strides: dict[str, int] = {}
    rows = graph.calls[graph.inputs[0]].layer.output.shape[1]
    for call in graph.calls.values():
        strides[call.name] = _stride(call, rows, strides)
        if call.inputs:
            part = _part(call.name)
            groups[call.name] = f"{part}, stride {strides[call.name]}" if part == BACKBONE else part
    return groups


def _part(name: str) -> str:
    return next((part for beginnings, part in _PARTS.items() if name.startswith(beginnings)), OTHER)


def _stride(call: LayerCall, rows: int | None, strides: dict[str, int]) -> int:
    """Return rows of the input to rows of a map, a power of 2; that of its source where it has no rows."""
    shape = call.layer.output.shape
    # A squeeze-and-excitation pools the map to one value and works on that.
    pooled = call.inputs and (len(shape) != 4 or shape[1] == 1)
    if pooled or not rows or not shape[1]:
        return strides[call.inputs[0]] if call.inputs else 1
    return int(2 ** round(math.log2(rows / shape[1])))
