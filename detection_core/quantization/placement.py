"""Choose the tensors of a folded network that get fake quantization, with a reason for the others.

The rules follow Jacob et al., 2018, sections 2.4 and 3, https://arxiv.org/abs/1712.05877.

A tensor is quantized where the integer kernel writes it: after a fused activation. Operations that only move
values keep the scale of their input. The inputs of a concatenation share one scale.
"""

import dataclasses
import enum
from collections.abc import Collection
from typing import Any

import tf_keras

from detection_core.parts.layers.keras_layers import FUNCTIONS, AddConstant, MultiplyByConstant, NearestResize
from detection_core.quantization.folding import CopiedCells, ScaledMap
from detection_core.quantization.graph import LayerCall, NetworkGraph

_layers = tf_keras.layers

WEIGHTED = {_layers.Conv2D: "kernel", _layers.DepthwiseConv2D: "depthwise_kernel", _layers.Dense: "kernel"}
FACTORS = {ScaledMap: "factor"}
COMPUTING = (
    _layers.Add, _layers.Subtract, _layers.Multiply, _layers.ReLU, _layers.GlobalAveragePooling2D,
    AddConstant, MultiplyByConstant, ScaledMap,
)  # fmt: skip
MOVING = (
    _layers.Reshape, _layers.Flatten, _layers.Permute, _layers.ZeroPadding2D, _layers.Cropping2D,
    _layers.MaxPooling2D, _layers.AveragePooling2D, _layers.Dropout, NearestResize,
    CopiedCells,
)  # fmt: skip
FUSING = (*WEIGHTED, _layers.Add, AddConstant)
FUSED_ACTIVATIONS = ("linear", "relu", "relu6")
LEFT_IN_FLOAT = "left in float on demand"
RANGE_UNKNOWN = "its range follows from that of its input, which stays in float"


class RangeSource(enum.Enum):
    """Source of the range of a call's output."""

    OWN = "own"
    """observed in training"""
    FIXED = "fixed"
    """fixed by the integer kernel"""
    PRODUCT = "product"
    """the input's range times a factor"""
    SHARED = "shared"
    """shared with another call"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quantized:
    """A call that runs in integers.

    Attributes:
        layer: name of the call.
        kind: class of its layer.
        weights: attribute of the layer with the quantized kernel; "" if it has none.
        range_source: source of the range of its output.
        range_owner: name of the call that owns the range; the call itself unless it is shared.
    """

    layer: str
    kind: str
    weights: str
    range_source: RangeSource
    range_owner: str

    def record(self) -> dict[str, Any]:
        """Return a JSON-able record; `output` is `own`, `fixed`, `product` or the range's owner."""
        shared = self.range_source is RangeSource.SHARED
        output = self.range_owner if shared else self.range_source.value
        return {"layer": self.layer, "kind": self.kind, "weights": self.weights, "output": output}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Placement:
    """Placement of fake quantization.

    Attributes:
        quantized: name of a call to its quantization.
        not_quantized: name of a call, or of a stage after the network, to the reason.
    """

    quantized: dict[str, Quantized]
    not_quantized: dict[str, str]

    @property
    def observed(self) -> list[str]:
        """Names of the calls whose outputs have separate ranges, inputs included."""
        return [name for name, entry in self.quantized.items() if entry.range_source is RangeSource.OWN]


def place_quantizers(graph: NetworkGraph, float_calls: Collection[str] = ()) -> Placement:
    """Decide for each call of a folded network whether and where it is quantized; `float_calls` are not."""
    placement = Placement(quantized={}, not_quantized={})
    owners = _range_owners(graph)
    for call in graph.calls.values():
        source = call.inputs[0] if call.inputs else ""
        reason = LEFT_IN_FLOAT if call.name in float_calls else _refusal(call, graph)
        if isinstance(call.layer, ScaledMap) and not {source, owners[source]} <= set(placement.quantized):
            reason = reason or RANGE_UNKNOWN
        if reason:
            placement.not_quantized[call.name] = reason
            continue
        owner = owners[call.name]
        range_source = _range_source(call, owner)
        placement.quantized[call.name] = Quantized(
            layer=call.name,
            kind=type(call.layer).__name__,
            weights=(WEIGHTED | FACTORS).get(type(call.layer), ""),
            range_source=range_source,
            range_owner=owner if range_source is RangeSource.SHARED else call.name,
        )
    return placement


def _range_source(call: LayerCall, owner: str) -> RangeSource:
    if _is_sigmoid(call.layer):
        return RangeSource.FIXED
    if isinstance(call.layer, ScaledMap):
        return RangeSource.PRODUCT
    return RangeSource.OWN if owner == call.name else RangeSource.SHARED


def _refusal(call: LayerCall, graph: NetworkGraph) -> str:
    """Return the reason why a call cannot run in integers; "" if it can."""
    layer = call.layer
    hard_swish = type(layer) is _layers.Activation and layer.activation is FUNCTIONS["hswish"]
    computes = isinstance(layer, (*COMPUTING, _layers.Concatenate)) or hard_swish
    if not call.inputs or _moves(layer) or computes:
        return ""
    if _is_sigmoid(layer):
        return "256 scores are too few to rank detections by" if call.name in graph.outputs else ""
    if isinstance(layer, _layers.BatchNormalization):
        return "a normalisation that follows no convolution, or one whose output is read elsewhere too"
    if type(layer) in WEIGHTED:
        activation = tf_keras.activations.serialize(layer.activation)
        return "" if activation in FUSED_ACTIVATIONS else f"no integer rule for its activation {activation!r}"
    return f"no integer rule for layers of class {type(layer).__name__}"


def _is_sigmoid(layer: Any) -> bool:
    if type(layer) is not _layers.Activation:
        return False
    return bool(tf_keras.activations.serialize(layer.activation) == "sigmoid")


def _moves(layer: Any) -> bool:
    """Return whether a layer only moves values, so that their scale stays."""
    if isinstance(layer, _layers.UpSampling2D):
        return bool(layer.interpolation == "nearest")
    return isinstance(layer, MOVING)


def _range_owners(graph: NetworkGraph) -> dict[str, str]:
    """Map each call to the call that owns its output's range."""
    owners: dict[str, str] = {}
    consumers = graph.consumers()
    for call in graph.calls.values():
        if call.inputs and _moves(call.layer):
            owners[call.name] = owners[call.inputs[0]]
        else:
            owners[call.name] = _reader_with_range(call, graph, consumers) or call.name
    return owners


def _reader_with_range(call: LayerCall, graph: NetworkGraph, consumers: dict[str, list[str]]) -> str:
    """Return the later call that quantizes this one's output: a fused ReLU or a concatenation."""
    name = call.name
    while len(consumers[name]) == 1 and name not in graph.outputs:
        reader = graph.calls[consumers[name][0]]
        if isinstance(reader.layer, _layers.ReLU) and name == call.name and isinstance(call.layer, FUSING):
            return _reader_with_range(reader, graph, consumers) or reader.name
        if isinstance(reader.layer, _layers.Concatenate) and call.inputs:
            return _reader_with_range(reader, graph, consumers) or reader.name
        if not _moves(reader.layer):
            return ""
        name = reader.name
    return ""
