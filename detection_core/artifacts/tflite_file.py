"""Validate a TensorFlow Lite file before an interpreter loads it.

The interpreter is native code, so indices out of range and sizes of terabytes must be found first. Types are
those of TensorFlow Lite's schema, version 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ai_edge_litert.schema_py_generated import Model

from detection_core.artifacts.flatbuffer_table import FlatbufferError, decoded, numbers, read_root, tables
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
    """Refuse a file that is not a TensorFlow Lite model, is truncated, or has invalid references.

    Raises:
        ModelError: saying what is wrong.
    """
    if not Model.ModelBufferHasIdentifier(content, 0):
        raise ModelError("expected a TensorFlow Lite file, found another kind; pass a .tflite", where=where)
    try:
        _verify_model(read_root(Model, content))
    except FlatbufferError as error:
        raise damaged(error, where) from error


def damaged(error: Exception, where: str) -> ModelError:
    """Return the error for a file that contradicts itself."""
    return ModelError(
        f"expected a whole TensorFlow Lite file, found a damaged one, with {error}; copy or export it again",
        where=where,
    )


def _verify_model(model: Any) -> None:
    codes = len(tables(model, "OperatorCodes"))
    sizes = [buffer_size(buffer) for buffer in tables(model, "Buffers")]
    graphs = tables(model, "Subgraphs")
    if not graphs:
        raise FlatbufferError("no graph")
    for graph in graphs:
        tensors = tables(graph, "Tensors")
        for tensor in tensors:
            _verify_tensor(tensor, sizes)
        for field in ("Inputs", "Outputs"):
            _verify_indices(numbers(graph, field), len(tensors))
        for operator in tables(graph, "Operators"):
            if operator.OpcodeIndex() >= codes:
                raise FlatbufferError("an operation of no kind")
            _verify_indices(numbers(operator, "Inputs"), len(tensors), least=_OPTIONAL)
            _verify_indices(numbers(operator, "Outputs"), len(tensors))


def buffer_size(buffer: Any) -> int:
    """Return the size of a buffer, in bytes, whether in the flatbuffer or after it."""
    if buffer.Offset() > 1:
        if buffer.Offset() + buffer.Size() > len(buffer._tab.Bytes):
            raise FlatbufferError("a buffer that ends behind the file's end")
        return int(buffer.Size())
    return 0 if buffer.DataIsNone() else len(buffer.DataAsNumpy())


def _verify_tensor(tensor: Any, sizes: Sequence[int]) -> None:
    index = tensor.Buffer()
    if index >= len(sizes):
        raise FlatbufferError(f"a tensor in buffer {index} of {len(sizes)}")
    decoded(tensor.Name())
    shape = numbers(tensor, "Shape")
    item = _ITEM_BYTES.get(tensor.Type())
    if item is None:
        return
    expected = math.prod(max(side, 1) for side in shape) * item
    if min(shape, default=0) < _OPTIONAL or expected > MAX_TENSOR_BYTES:
        raise FlatbufferError(f"a tensor of the shape {list(shape)}")
    if sizes[index] and sizes[index] != expected and tensor.Sparsity() is None:
        raise FlatbufferError(f"{sizes[index]} bytes for a tensor of {expected}")


def _verify_indices(indices: Sequence[int], count: int, *, least: int = 0) -> None:
    for index in indices:
        if not least <= index < count:
            raise FlatbufferError(f"a reference to tensor {index} of {count}")
