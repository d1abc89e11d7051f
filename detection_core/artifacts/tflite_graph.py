"""Reading the graph of a TensorFlow Lite file: tensors, operations and signatures, without loading it."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Mapping

from detection_core.artifacts import tflite_slots as slots
from detection_core.artifacts.flatbuffer_table import FlatbufferError, Table
from detection_core.artifacts.tflite_file import damaged, verify_tflite

_TYPES = (
    "float32", "float16", "int32", "uint8", "int64", "string", "bool", "int16", "complex64", "int8",
    "float64", "complex128", "uint64", "resource", "variant", "uint32", "uint16", "int4", "bfloat16", "int2",
)  # fmt: skip
_FIRST_NEW_CODE = 127


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorQuantization:
    """How a tensor's integers are read: (code - zero point) * scale.

    Attributes:
        scale: one, or one a channel.
        zero_point: as many.
        axis: of the channels.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """A tensor of a graph.

    Attributes:
        name: in the graph.
        shape: -1 for a free dimension.
        dtype: such as `int8`.
        quantization: None where its numbers are what they are.
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
        is_custom: whether it is none of TensorFlow Lite's own.
        inputs: indices of tensors; -1 where an optional one is left out.
        outputs: indices of tensors.
    """

    name: str
    is_custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteGraph:
    """What the first graph of a file computes.

    Attributes:
        schema_version: of the file.
        tensors: of the graph.
        operators: in the order in which they run.
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
        """Return name of an operation to how often it is there, the most frequent first."""
        counts = collections.Counter(operator.name for operator in self.operators)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def read_graph(content: bytes, *, where: str = "") -> TFLiteGraph:
    """Read the first graph of a file.

    Args:
        content: a TensorFlow Lite file.
        where: its path, for errors.

    Raises:
        ModelError: when it is no TensorFlow Lite file, or a damaged one.
    """
    verify_tflite(content, where=where)
    try:
        return _graph(Table.root(content))
    except FlatbufferError as error:
        raise damaged(error, where) from error


def _graph(model: Table) -> TFLiteGraph:
    graph = model.tables(slots.Model.SUBGRAPHS)[0]
    kinds = [_kind(code) for code in model.tables(slots.Model.OPERATOR_CODES)]
    buffers = model.tables(slots.Model.BUFFERS)
    return TFLiteGraph(
        schema_version=model.number(slots.Model.VERSION, "I"),
        tensors=tuple(_tensor(tensor, buffers) for tensor in graph.tables(slots.SubGraph.TENSORS)),
        operators=tuple(_operator(entry, kinds) for entry in graph.tables(slots.SubGraph.OPERATORS)),
        inputs=graph.integers(slots.SubGraph.INPUTS),
        outputs=graph.integers(slots.SubGraph.OUTPUTS),
        signature_names=_signature_names(model),
    )


def _operator(entry: Table, kinds: list[tuple[str, bool]]) -> OperatorInfo:
    name, is_custom = kinds[entry.number(slots.Operator.OPCODE_INDEX, "I")]
    return OperatorInfo(
        name=name,
        is_custom=is_custom,
        inputs=entry.integers(slots.Operator.INPUTS),
        outputs=entry.integers(slots.Operator.OUTPUTS),
    )


def _kind(code: Table) -> tuple[str, bool]:
    custom = code.text(slots.OperatorCode.CUSTOM_CODE)
    if custom:
        return custom, True
    old = code.number(slots.OperatorCode.DEPRECATED_BUILTIN_CODE, "b")
    new = code.number(slots.OperatorCode.BUILTIN_CODE, "i")
    number = max(old, new) if old < _FIRST_NEW_CODE else new
    return _builtin_names().get(number, f"BUILTIN_{number}"), False


@functools.cache
def _builtin_names() -> dict[int, str]:
    from ai_edge_litert.schema_py_generated import BuiltinOperator

    return {code: name for name, code in vars(BuiltinOperator).items() if isinstance(code, int)}


def _tensor(tensor: Table, buffers: list[Table]) -> TensorInfo:
    number = tensor.number(slots.Tensor.TYPE, "b")
    buffer = buffers[tensor.number(slots.Tensor.BUFFER, "I")]
    return TensorInfo(
        name=tensor.text(slots.Tensor.NAME),
        shape=tensor.integers(slots.Tensor.SHAPE),
        dtype=_TYPES[number] if 0 <= number < len(_TYPES) else f"type {number}",
        quantization=_quantization(tensor),
        is_constant=bool(buffer.length(slots.Buffer.DATA) or buffer.number(slots.Buffer.SIZE, "Q")),
    )


def _quantization(tensor: Table) -> TensorQuantization | None:
    if not tensor.has(slots.Tensor.QUANTIZATION):
        return None
    parameters = tensor.table(slots.Tensor.QUANTIZATION)
    scale = parameters.floats(slots.QuantizationParameters.SCALE)
    if not scale:
        return None
    return TensorQuantization(
        scale=scale,
        zero_point=parameters.longs(slots.QuantizationParameters.ZERO_POINT) or (0,) * len(scale),
        axis=parameters.number(slots.QuantizationParameters.QUANTIZED_DIMENSION, "i"),
    )


def _signature_names(model: Table) -> dict[int, str]:
    return {
        entry.number(slots.TensorMap.TENSOR_INDEX, "I"): entry.text(slots.TensorMap.NAME)
        for signature in model.tables(slots.Model.SIGNATURE_DEFS)[:1]
        for slot in (slots.SignatureDef.INPUTS, slots.SignatureDef.OUTPUTS)
        for entry in signature.tables(slot)
    }
