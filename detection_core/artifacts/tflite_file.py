"""Validate a TensorFlow Lite file before an interpreter loads it, and read its graph.

The interpreter is native code, so indices out of range and sizes of terabytes must be found first. Types are
those of TensorFlow Lite's schema, version 3.

`network_operators` separates the network from the post-processing. The network consists of the convolutions
and everything that they depend on. Later operations that only move or join results belong to it, too (the raw
heads). The function works for files of all layouts and formats.
"""

import collections
import contextlib
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from ai_edge_litert.schema_py_generated import BuiltinOperator, Model, TensorType

from detection_core.artifacts.flatbuffer_table import (
    FlatbufferError,
    checked,
    decoded,
    numbers,
    read_root,
    tables,
)
from detection_core.errors import ModelError
from detection_core.storage import files

MAX_TENSOR_BYTES = 2**31
MAX_FILE_BYTES = 2**31
# TensorType to bytes per item, for types of a fixed size.
_ITEM_BYTES = {0: 4, 1: 2, 2: 4, 3: 1, 4: 8, 6: 1, 7: 2, 8: 8, 9: 1, 10: 8, 11: 16, 12: 8, 15: 4, 16: 2}
_OPTIONAL = -1


def read_tflite(path: str) -> bytes:
    """Return the bytes of a file that should be a TensorFlow Lite model.

    Raises:
        ModelError: for a pipe, a device, or a file too long for its offsets.
        OSError: when it cannot be read.
    """
    try:
        return files.read_regular(path, MAX_FILE_BYTES)
    except OSError as error:
        if error.errno not in files.IRREGULAR:
            raise
        raise ModelError(
            f"expected a TensorFlow Lite file, found something else ({error.strerror}); pass a .tflite",
            where=path,
        ) from error


def verify_tflite(content: bytes, *, where: str = "") -> None:
    """Refuse a file that is no valid TensorFlow Lite model, or truncated; ModelError says what is wrong."""
    with checked_model(content, where=where):
        pass


@contextlib.contextmanager
def checked_model(content: bytes | bytearray, *, where: str = "") -> Iterator[Any]:
    """Yield the root table of a verified file; the block may read it with `flatbuffer_table`.

    Raises:
        ModelError: as `verify_tflite`; also for a `FlatbufferError` in the block.
    """
    with _read_errors(content, where):
        _graphs(read_root(Model, content))
        yield read_root(Model, content)


@contextlib.contextmanager
def _read_errors(content: bytes | bytearray, where: str) -> Iterator[None]:
    if not Model.ModelBufferHasIdentifier(content, 0):
        raise ModelError("expected a TensorFlow Lite file, found another kind; pass a .tflite", where=where)
    try:
        yield
    except FlatbufferError as error:
        raise damaged(error, where) from error


def damaged(error: Exception, where: str) -> ModelError:
    """Return the error for a file that contradicts itself."""
    return ModelError(
        f"expected a whole TensorFlow Lite file, found a damaged one, with {error}; copy or export it again",
        where=where,
    )


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
        content: uint8, the bytes that the file holds of a constant, without a copy; empty for others.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantization: TensorQuantization | None
    content: np.ndarray = dataclasses.field(repr=False, compare=False)

    @property
    def is_constant(self) -> bool:
        """Whether the file holds its content."""
        return self.content.size > 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperatorInfo:
    """An operation of a graph.

    Attributes:
        name: `CONV_2D`, ..., or the name of a custom operation.
        is_custom: whether it is not a built-in operation.
        inputs: indices of tensors; -1 for an omitted optional one.
        outputs: indices of tensors.
        table: the operation in the generated schema, for its options.
        version: of the operation.
    """

    name: str
    is_custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    table: Any = None
    version: int = 1


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
        return by_number(operator.name for operator in self.operators)


def by_number(names: Iterable[str]) -> dict[str, int]:
    """Return how often each name occurs, the most frequent first."""
    return dict(sorted(collections.Counter(names).items(), key=lambda item: (-item[1], item[0])))


def read_graph(content: bytes, *, where: str = "") -> TFLiteGraph:
    """Read a TensorFlow Lite file's first graph; errors name it `where`; ModelError when it is damaged."""
    with _read_errors(content, where):
        return _graphs(read_root(Model, content))[0]


def _graphs(model: Any) -> list[TFLiteGraph]:
    """Read all graphs; FlatbufferError for indices out of range, and sizes that do not fit."""
    codes = tables(model, "OperatorCodes")
    buffers = [_content(buffer) for buffer in tables(model, "Buffers")]
    names = {
        entry.TensorIndex(): decoded(entry.Name())
        for signature in tables(model, "SignatureDefs")[:1]
        for field in ("Inputs", "Outputs")
        for entry in tables(signature, field)
    }
    graphs = []
    for graph in tables(model, "Subgraphs"):
        tensors = tuple(_tensor(tensor, buffers) for tensor in tables(graph, "Tensors"))
        graphs.append(
            TFLiteGraph(
                schema_version=model.Version(),
                tensors=tensors,
                operators=tuple(_operator(o, codes, len(tensors)) for o in tables(graph, "Operators")),
                inputs=_indices(graph, "Inputs", len(tensors)),
                outputs=_indices(graph, "Outputs", len(tensors)),
                signature_names=names,
            )
        )
    if not graphs:
        raise FlatbufferError("no graph")
    return graphs


def _content(buffer: Any) -> np.ndarray:
    """Return the bytes of a buffer, whether in the flatbuffer or after it."""
    start, size = buffer.Offset(), buffer.Size()
    if start > 1:
        if start + size > len(buffer._tab.Bytes):
            raise FlatbufferError("a buffer that ends behind the file's end")
        return np.frombuffer(buffer._tab.Bytes, np.uint8, size, start)
    return np.empty(0, np.uint8) if buffer.DataIsNone() else buffer.DataAsNumpy()


def _tensor(tensor: Any, buffers: Sequence[np.ndarray]) -> TensorInfo:
    index, shape, kind = tensor.Buffer(), numbers(tensor, "Shape"), tensor.Type()
    if index >= len(buffers):
        raise FlatbufferError(f"a tensor in buffer {index} of {len(buffers)}")
    item, content = _ITEM_BYTES.get(kind), buffers[index]
    if item is not None:
        expected = math.prod(max(side, 1) for side in shape) * item
        if min(shape, default=0) < _OPTIONAL or expected > MAX_TENSOR_BYTES:
            raise FlatbufferError(f"a tensor of the shape {list(shape)}")
        if content.size and content.size != expected and tensor.Sparsity() is None:
            raise FlatbufferError(f"{content.size} bytes for a tensor of {expected}")
    return TensorInfo(
        name=decoded(tensor.Name()),
        shape=shape,
        dtype=_TYPES.get(kind, f"type {kind}"),
        quantization=_quantization(tensor),
        content=content,
    )


def _operator(entry: Any, codes: Sequence[Any], count: int) -> OperatorInfo:
    if entry.OpcodeIndex() >= len(codes):
        raise FlatbufferError("an operation of no kind")
    code = codes[entry.OpcodeIndex()]
    name, is_custom = _kind(code)
    return OperatorInfo(
        name=name,
        is_custom=is_custom,
        inputs=_indices(entry, "Inputs", count, least=_OPTIONAL),
        outputs=_indices(entry, "Outputs", count),
        table=entry,
        version=code.Version(),
    )


def _indices(owner: Any, field: str, count: int, *, least: int = 0) -> tuple[int, ...]:
    indices = numbers(owner, field)
    for index in indices:
        if not least <= index < count:
            raise FlatbufferError(f"a reference to tensor {index} of {count}")
    return indices


def _kind(code: Any) -> tuple[str, bool]:
    custom = decoded(code.CustomCode())
    if custom:
        return custom, True
    old, new = code.DeprecatedBuiltinCode(), code.BuiltinCode()
    number = max(old, new) if old < _FIRST_NEW_CODE else new
    return _OPERATORS.get(number, f"BUILTIN_{number}"), False


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
        # An operation with only constant inputs belongs to no part.
        computed = {i for i in operator.inputs if i >= 0 and not graph.tensors[i].is_constant}
        if position not in inside and operator.name in _MOVES and computed and computed <= made:
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
