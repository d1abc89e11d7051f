"""Read a functional tf_keras network as a list of layer calls.

A layer shared by pyramid levels is called once per level. Each call is a separate entry, because folding and
quantization work on calls.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tf_keras

from detection_core.errors import ModelError
from detection_core.parts.layers.layer_names import copy_name
from detection_core.parts.layers.static_shapes import static_shapes


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerCall:
    """One call of a layer.

    Attributes:
        name: unique in the network: the layer's name, plus `_level_N` if the layer has several calls.
        layer: the layer called.
        inputs: names of the calls that compute its inputs, in order.
        many: True if the layer takes a list of tensors (Add, Concatenate).
    """

    name: str
    layer: tf_keras.layers.Layer
    inputs: tuple[str, ...]
    many: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkGraph:
    """The calls of a network, in topological order.

    Attributes:
        calls: name to call, topologically ordered; input layers included.
        inputs: names of the input layers' calls, in the network's order.
        outputs: names of the calls of the network's outputs, in order.
        returns_list: True if the network returns a list or tuple, False for a bare tensor.
    """

    calls: dict[str, LayerCall]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    returns_list: bool

    def consumers(self) -> dict[str, list[str]]:
        """Return, for each call, the names of the calls that read its output."""
        consumers: dict[str, list[str]] = {name: [] for name in self.calls}
        for call in self.calls.values():
            for source in call.inputs:
                consumers[source].append(call.name)
        return consumers


def read_graph(network: tf_keras.Model) -> NetworkGraph:
    """List the layer calls of a flat functional network; ModelError for other networks and layers."""
    nodes_by_depth = getattr(network, "_nodes_by_depth", None)
    if nodes_by_depth is None:
        raise ModelError(
            f"expected a functional tf_keras.Model, found {type(network).__name__}; build the network with"
            " tf_keras.Model(inputs, outputs)",
            where=getattr(network, "name", ""),
        )
    nodes = [node for depth in sorted(nodes_by_depth, reverse=True) for node in nodes_by_depth[depth]]
    for node in nodes:
        _check_layer(node.layer, node)
    names = _call_names(nodes)
    calls = {
        names[id(node)]: LayerCall(
            name=names[id(node)],
            layer=node.layer,
            inputs=tuple(names[_maker(t)] for t in _inputs(node)),
            many=not node.is_input and isinstance(node.call_args[0], list | tuple),
        )
        for node in nodes
    }
    return NetworkGraph(
        calls=calls,
        inputs=tuple(names[_maker(t)] for t in network.inputs),
        outputs=tuple(names[_maker(t)] for t in network.outputs),
        returns_list=isinstance(network.output, list | tuple),
    )


@static_shapes()
def rebuild(
    graph: NetworkGraph, make_layer: Callable[[LayerCall], tf_keras.layers.Layer | None], *, name: str
) -> tf_keras.Model:
    """Make a functional network with the same connections, with a new layer for each call.

    Args:
        graph: the calls to make.
        make_layer: returns the new layer of a call, or None to pass the (only) input on. For an input layer's
            call the returned layer, if any, is applied to the input.
        name: name of the new network.

    Returns:
        A network with one layer object per call, none shared.
    """
    tensors: dict[str, Any] = {}
    inputs = []
    for call in graph.calls.values():
        layer = make_layer(call)
        if call.inputs:
            arguments = [tensors[source] for source in call.inputs]
            argument = arguments if call.many else arguments[0]
        else:
            argument = tf_keras.Input(
                batch_shape=call.layer.output.shape, dtype=call.layer.dtype, name=call.name
            )
            inputs.append(argument)
        tensors[call.name] = argument if layer is None else layer(argument)
    outputs = [tensors[output] for output in graph.outputs]
    return tf_keras.Model(inputs, outputs if graph.returns_list else outputs[0], name=name)


def _call_names(nodes: list[Any]) -> dict[int, str]:
    """Name each node; calls of a shared layer are numbered in creation order."""
    by_layer: dict[int, list[Any]] = {}
    for node in nodes:
        by_layer.setdefault(id(node.layer), []).append(node)
    names = {}
    for same in by_layer.values():
        layer = same[0].layer
        order = sorted(same, key=layer._inbound_nodes.index)
        for number, node in enumerate(order):
            names[id(node)] = layer.name if len(same) == 1 else copy_name(layer.name, number)
    return names


def _inputs(node: Any) -> list[Any]:
    if node.is_input:
        return []
    argument = node.call_args[0]
    return list(argument) if isinstance(argument, list | tuple) else [argument]


def _maker(tensor: Any) -> int:
    history = tensor._keras_history
    return id(history.layer._inbound_nodes[history.node_index])


def _check_layer(layer: Any, node: Any) -> None:
    if isinstance(layer, tf_keras.Model):
        raise ModelError(
            "expected a flat network of layers, found a model inside; call its layers one by one",
            where=layer.name,
        )
    if isinstance(node.outputs, list | tuple) and len(node.outputs) > 1:
        raise ModelError(
            f"expected layers with one output tensor, found {len(node.outputs)} outputs;"
            " this layer cannot be quantized",
            where=layer.name,
        )
