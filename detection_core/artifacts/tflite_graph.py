"""Read the graph of a TensorFlow Lite file (tensors, operations, signatures) without loading it.

`network_operators` separates the network from the post-processing. The network consists of the convolutions
and everything that they depend on. Later operations that only move or join results belong to it, too (the raw
heads). The function works for files of all layouts and formats.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

from ai_edge_litert.schema_py_generated import BuiltinOperator, Model, TensorType

from detection_core.artifacts.flatbuffer_table import (
    FlatbufferError,
    checked,
    decoded,
    numbers,
    read_root,
    tables,
)
from detection_core.artifacts.tflite_file import buffer_size, damaged, verify_tflite

_TYPES = {code: name.lower() for name, code in vars(TensorType).items() if isinstance(code, int)}
_OPERATORS = {code: name for name, code in vars(BuiltinOperator).items() if isinstance(code, int)}
_FIRST_NEW_CODE = 127


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorQuantization:
    """Quantization of a tensor: value = (code - zero point) * scale.

    Attributes:
        scale: one value, or one per channel.
        zero_point: likewise.
        axis: dimension of the channels.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """A tensor of a graph.

    Attributes:
        name: name in the graph.
        shape: -1 for a free dimension.
        dtype: such as `int8`.
        quantization: None if not quantized.
        is_constant: whether the file holds its content.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantization: TensorQuantization | None
    is_constant: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperatorInfo:
    """An operation of a graph.

    Attributes:
        name: `CONV_2D`, ..., or the name of a custom operation.
        is_custom: whether it is not a built-in operation.
        inputs: indices of tensors; -1 for an omitted optional one.
        outputs: indices of tensors.
    """

    name: str
    is_custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteGraph:
    """The first graph of a file.

    Attributes:
        schema_version: version of the file's schema.
        tensors: of the graph.
        operators: in execution order.
        inputs: indices of tensors.
        outputs: indices of tensors.
        signature_names: index of a tensor to its name in the file's signature.
    """

    schema_version: int
    tensors: tuple[TensorInfo, ...]
    operators: tuple[OperatorInfo, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    signature_names: Mapping[int, str]

    def operator_counts(self) -> dict[str, int]:
        """Return how often each operation occurs, the most frequent first."""
        counts = collections.Counter(operator.name for operator in self.operators)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def read_graph(content: bytes, *, where: str = "") -> TFLiteGraph:
    """Read the first graph of a TensorFlow Lite file; errors name the file `where`.

    Raises:
        ModelError: when it is not a TensorFlow Lite file, or damaged.
    """
    verify_tflite(content, where=where)
    try:
        return _graph(read_root(Model, content))
    except FlatbufferError as error:
        raise damaged(error, where) from error


def _graph(model: Any) -> TFLiteGraph:
    graph = tables(model, "Subgraphs")[0]
    kinds = [_kind(code) for code in tables(model, "OperatorCodes")]
    buffers = tables(model, "Buffers")
    return TFLiteGraph(
        schema_version=model.Version(),
        tensors=tuple(_tensor(tensor, buffers) for tensor in tables(graph, "Tensors")),
        operators=tuple(_operator(entry, kinds) for entry in tables(graph, "Operators")),
        inputs=numbers(graph, "Inputs"),
        outputs=numbers(graph, "Outputs"),
        signature_names=_signature_names(model),
    )


def _operator(entry: Any, kinds: list[tuple[str, bool]]) -> OperatorInfo:
    name, is_custom = kinds[entry.OpcodeIndex()]
    inputs, outputs = numbers(entry, "Inputs"), numbers(entry, "Outputs")
    return OperatorInfo(name=name, is_custom=is_custom, inputs=inputs, outputs=outputs)


def _kind(code: Any) -> tuple[str, bool]:
    custom = decoded(code.CustomCode())
    if custom:
        return custom, True
    old, new = code.DeprecatedBuiltinCode(), code.BuiltinCode()
    number = max(old, new) if old < _FIRST_NEW_CODE else new
    return _OPERATORS.get(number, f"BUILTIN_{number}"), False


def _tensor(tensor: Any, buffers: list[Any]) -> TensorInfo:
    return TensorInfo(
        name=decoded(tensor.Name()),
        shape=numbers(tensor, "Shape"),
        dtype=_TYPES.get(tensor.Type(), f"type {tensor.Type()}"),
        quantization=_quantization(tensor),
        is_constant=buffer_size(buffers[tensor.Buffer()]) > 0,
    )


def _quantization(tensor: Any) -> TensorQuantization | None:
    parameters = tensor.Quantization()
    scale = numbers(checked(parameters, tensor), "Scale") if parameters else ()
    if not scale:
        return None
    return TensorQuantization(
        scale=scale,
        zero_point=numbers(parameters, "ZeroPoint") or (0,) * len(scale),
        axis=parameters.QuantizedDimension(),
    )


def _signature_names(model: Any) -> dict[int, str]:
    return {
        entry.TensorIndex(): decoded(entry.Name())
        for signature in tables(model, "SignatureDefs")[:1]
        for field in ("Inputs", "Outputs")
        for entry in tables(signature, field)
    }


CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
_MOVES = ("CONCATENATION", "EXPAND_DIMS", "PACK", "QUANTIZE", "RESHAPE", "SQUEEZE", "TRANSPOSE")


def network_operators(graph: TFLiteGraph) -> list[int]:
    """Return the positions of the network's operations in the graph, in order."""
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
    """Return the raw heads: the network's tensors that are graph outputs or that later operations use.

    They are in execution order.
    """
    inside = network_operators(graph)
    made = [tensor for position in inside for tensor in graph.operators[position].outputs]
    behind = set(graph.outputs)
    for position in sorted(set(range(len(graph.operators))) - set(inside)):
        behind.update(graph.operators[position].inputs)
    return [tensor for tensor in made if tensor in behind]


def _computed(graph: TFLiteGraph, operator: OperatorInfo) -> set[int]:
    """Return the non-constant inputs; an operation with only constant inputs belongs to no part."""
    found = {i for i in operator.inputs if i >= 0 and not graph.tensors[i].is_constant}
    return found or {-1}
