"""Where the network of a detector's TensorFlow Lite file ends, whatever makes detections of it behind.

The network is what convolutions are computed from, the convolutions themselves, and the operations right
behind them that only move or join their results: the raw heads. So it is found in files of every form and
format, with post-processing in one operation, in many, or without.
"""

from __future__ import annotations

from detection_core.artifacts.tflite_graph import OperatorInfo, TFLiteGraph

CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
_MOVES = ("CONCATENATION", "EXPAND_DIMS", "PACK", "QUANTIZE", "RESHAPE", "SQUEEZE", "TRANSPOSE")


def network_operators(graph: TFLiteGraph) -> list[int]:
    """Return the positions of the network's operations in the graph, in their order."""
    needed: set[int] = set()
    inside: set[int] = set()
    for position in reversed(range(len(graph.operators))):
        operator = graph.operators[position]
        if operator.name in CONVOLUTIONS or needed.intersection(operator.outputs):
            inside.add(position)
            needed.update(i for i in operator.inputs if i >= 0)
    made = {tensor for position in inside for tensor in graph.operators[position].outputs}
    for position, operator in enumerate(graph.operators):
        if position not in inside and operator.name in _MOVES and made.issuperset(_computed(graph, operator)):
            inside.add(position)
            made.update(operator.outputs)
    return sorted(inside)


def network_outputs(graph: TFLiteGraph) -> list[int]:
    """Return the tensors that the network gives to what is behind it: the raw heads.

    They stand in the order in which they are computed.
    """
    inside = network_operators(graph)
    made = [tensor for position in inside for tensor in graph.operators[position].outputs]
    behind = set(graph.outputs)
    for position in sorted(set(range(len(graph.operators))) - set(inside)):
        behind.update(graph.operators[position].inputs)
    return [tensor for tensor in made if tensor in behind]


def _computed(graph: TFLiteGraph, operator: OperatorInfo) -> set[int]:
    """Return the inputs that are no constants; an operation of constants alone belongs to nothing."""
    found = {i for i in operator.inputs if i >= 0 and not graph.tensors[i].is_constant}
    return found or {-1}
