"""Compare a TensorFlow Lite file with its source network, layer by layer.

Both get the same inputs. A tensor of a file has the names of its source nodes, the last computed one first.
Each operation's output is compared with that node's output; in integer files, with its fake-quantized value.
Operations run in LiteRT's own kernels, because delegates do not expose their inner tensors.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.artifacts.parity import LayerNoise, NetworkParity
from detection_core.artifacts.tflite_file import (
    TensorInfo,
    TFLiteGraph,
    network_operators,
    network_outputs,
    read_graph,
)
from detection_core.errors import ModelError
from detection_core.exporters.operator_times import make_interpreter
from detection_core.quantization.aware import PREFIX

MOST_DB = 100.0
"""Ratio of a tensor without noise; anything above is float32 rounding."""

_FAKE_QUANTIZATION = "FakeQuantWithMinMaxVars"


def compare_layers(
    content: bytes, reference: "ReferenceNetwork", inputs: Iterable[np.ndarray], least_db: float
) -> NetworkParity:
    """Compare each operation of a file with its source network.

    Operations without a node of their name in the network, such as copies, are left out, except heads.

    Args:
        content: a TensorFlow Lite file, with or without metadata.
        reference: the converted network.
        inputs: inputs of the file, [1, H, W, 3] of the file's dtype.
        least_db: least signal-to-noise ratio of each head, decibels.

    Raises:
        ModelError: if there is no input.
    """
    graph = read_graph(content)
    heads = set(network_outputs(graph))
    compared = [
        _Compared(operation=graph.operators[position].name, tensor=index, node=node)
        for position in network_operators(graph)
        if not all(graph.tensors[i].is_constant for i in graph.operators[position].inputs if i >= 0)
        for index in graph.operators[position].outputs
        if (node := reference.node_of(graph.tensors[index], _output_name(graph, index)))
    ]
    signal, noise, images = np.zeros(len(compared)), np.zeros(len(compared)), 0
    interpreter = make_interpreter(content, threads=1, delegate="none", keep_tensors=True)
    for value in inputs:
        images += 1
        found = _run(interpreter, graph, value, [one.tensor for one in compared])
        wanted = reference.run(_real(value, graph.tensors[graph.inputs[0]]), [o.node for o in compared])
        signal += [np.square(w, dtype=np.float64).sum() for w in wanted]
        noise += [np.square(f - w, dtype=np.float64).sum() for f, w in zip(found, wanted, strict=True)]
    if not images:
        raise ModelError("expected at least one input to compare layers on, found none; name another split")
    layers = [
        LayerNoise(layer=_layer(one.node), operation=one.operation, db=round(_decibels(s, n), 2))
        for one, s, n in zip(compared, signal, noise, strict=True)
    ]
    by_head: dict[str, float] = {}
    for one, layer in zip(compared, layers, strict=True):
        if one.tensor in heads:
            by_head[layer.layer] = min(layer.db, by_head.get(layer.layer, MOST_DB))
    apart = next((layer for layer in layers if layer.db < least_db), None)
    return NetworkParity(
        images=images,
        least_db=least_db,
        heads=by_head,
        unmatched=[graph.tensors[i].name for i in sorted(heads - {one.tensor for one in compared})],
        layer=apart.layer if apart else "",
        operation=apart.operation if apart else "",
        layer_db=apart.db if apart else None,
        layers=layers,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Compared:
    operation: str
    tensor: int
    node: str


class ReferenceNetwork:
    """A concrete function whose tensors can all be fetched; a context manager, shared by all its files."""

    def __init__(self, function: Any) -> None:
        """Copy a converted function of one float32 input, and its variables."""
        # TensorFlow's freezing would remove the network, because the post-processing placeholder
        # ignores its inputs.
        inner = function.graph
        (fed,) = [tensor for tensor in inner.inputs if tensor.dtype == tf.float32][:1]
        values = _captured(inner)
        self._graph = tf.Graph()
        with self._graph.as_default():
            constants = {name: tf.constant(value) for name, value in values.items()}
            tf.import_graph_def(inner.as_graph_def(), input_map=constants, name="")
        self._input = fed.name
        self._session = tf.compat.v1.Session(graph=self._graph)
        self._nodes = {operation.name: operation for operation in self._graph.get_operations()}
        given = function.structured_outputs
        self._outputs = {n: t.name for n, t in given.items()} if isinstance(given, Mapping) else {}

    def __enter__(self) -> "ReferenceNetwork":
        return self

    def __exit__(self, *raised: object) -> None:
        self._session.close()

    def node_of(self, tensor: TensorInfo, output: str = "") -> str:
        """Return the name of the function's tensor behind a file's tensor; "" if there is none.

        An output, which has no node's name, is found by its name in the file's signature.
        """
        if output in self._outputs:
            node = self._graph.get_tensor_by_name(self._outputs[output])
            while node.op.type == "Identity":
                node = node.op.inputs[0]
            if _fits(node, tensor):
                return str(_quantized(node, tensor).name)
        for part in tensor.name.split(";"):
            # The converter appends digits to equal names.
            for name in (part, part.rstrip("0123456789")):
                node = self._nodes.get(name)
                if node is not None and node.outputs and _fits(node.outputs[0], tensor):
                    return str(_quantized(node.outputs[0], tensor).name)
        return ""

    def run(self, value: np.ndarray, names: Sequence[str]) -> list[np.ndarray]:
        """Return the values of tensors for an input, float32."""
        return list(self._session.run(list(names), {self._input: value}))


def _output_name(graph: TFLiteGraph, index: int) -> str:
    """Return the signature's name of a tensor or of its dequantized value; "" for an inner tensor."""
    floats = [o.outputs[0] for o in graph.operators if o.name == "DEQUANTIZE" and index in o.inputs]
    names = [graph.signature_names[i] for i in (index, *floats) if i in graph.signature_names]
    return names[0] if names else ""


def _captured(graph: Any) -> dict[str, np.ndarray]:
    """Return the values that a function's graph captures, by the tensors that read them."""
    values = {id(variable.handle): variable.numpy() for variable in graph.variables}
    found = {}
    for outside, inside in graph.captures:
        if inside.dtype != tf.resource:
            found[inside.name] = outside.numpy()
        else:
            reads = [op for op in inside.consumers() if op.type == "ReadVariableOp"]
            found.update({op.outputs[0].name: values[id(outside)] for op in reads})
    return found


def _fits(node: Any, tensor: TensorInfo) -> bool:
    is_real = node.dtype == tf.float32 and node.shape.is_fully_defined()
    return is_real and tuple(node.shape) == tensor.shape


def _quantized(node: Any, tensor: TensorInfo) -> Any:
    """Return a node's fake-quantized value if the file's tensor is in integers."""
    if tensor.quantization is None:
        return node
    behind = [op.outputs[0] for op in node.consumers() if op.type == _FAKE_QUANTIZATION]
    return behind[0] if behind else node


def _run(interpreter: Any, graph: TFLiteGraph, value: np.ndarray, tensors: Sequence[int]) -> list[np.ndarray]:
    interpreter.set_tensor(graph.inputs[0], value)
    interpreter.invoke()
    return [_real(interpreter.get_tensor(index), graph.tensors[index]) for index in tensors]


def _real(value: np.ndarray, tensor: TensorInfo) -> np.ndarray:
    """Dequantize to float32; activations have one scale."""
    if tensor.quantization is None:
        return value
    scale, zero = tensor.quantization.scale[0], tensor.quantization.zero_point[0]
    return ((value.astype(np.float64) - zero) * scale).astype(np.float32)


def _decibels(signal: float, noise: float) -> float:
    if noise <= signal * 10 ** (-MOST_DB / 10):
        return MOST_DB
    return float(10 * np.log10(max(signal, 1e-300) / noise))


def _layer(node: str) -> str:
    """Return the layer of a node's name, MODEL/LAYER/OPERATION."""
    parts = node.partition(":")[0].split("/")
    name = "/".join(parts[1:-1]) or parts[-1]
    return name.removeprefix(PREFIX)
