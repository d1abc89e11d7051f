"""Parts of a network for reports on quantization: backbone stages, feature network, heads."""

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
"""Prefix of a layer's name, as `parts` and the families assign it, to the part."""


def layer_groups(graph: NetworkGraph) -> dict[str, str]:
    """Return the part of the network of each call, without inputs.

    The backbone is split by the stride of its feature maps: `backbone, stride 8`.

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
    """Return the ratio of input rows to map rows, a power of 2; without rows, its source's stride."""
    shape = call.layer.output.shape
    # A squeeze-and-excitation works on a map pooled to one value.
    pooled = call.inputs and (len(shape) != 4 or shape[1] == 1)
    if pooled or not rows or not shape[1]:
        return strides[call.inputs[0]] if call.inputs else 1
    return int(2 ** round(math.log2(rows / shape[1])))
