"""Write upsampling in an integer TensorFlow Lite file with operations that delegates run.

XNNPACK has no nearest-neighbour resizing, and the Edge TPU's compiler refuses its newer versions; the sources
are in accelerators.yaml. Each pyramid level would split the network again. For a whole factor, concatenated
copies give the same map, and both delegates run them. A concatenation along the channels repeats cells, one
along the rows' axis repeats rows, and a reshape follows each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.tools.flatbuffer_utils import convert_object_to_bytearray

# Most inputs of XNNPACK's concatenation.
_MOST_COPIES = 5
# The first versions that take int8.
_VERSIONS = {"CONCATENATION": 2, "RESHAPE": 1}


def repeat_by_copies(content: bytes) -> bytes:
    """Replace each nearest-neighbour resizing by a whole factor with concatenations and reshapes.

    The file's outputs stay the same, bit by bit.

    Args:
        content: a TensorFlow Lite file without an archive at its end.
    """
    model: Any = schema.ModelT.InitFromPackedBuf(content, 0)
    graph = model.subgraphs[0]
    operators = []
    for operator in graph.operators:
        factors = _factors(model, operator)
        operators += _Rewriting(model).copies(operator, *factors) if factors else [operator]
    if len(operators) == len(graph.operators):
        return content
    graph.operators = operators
    return bytes(convert_object_to_bytearray(model))


def _factors(model: Any, operator: Any) -> tuple[int, int] | None:
    """Return the factors of rows and columns of a resizing; None for anything else."""
    code = model.operatorCodes[operator.opcodeIndex]
    kind = schema.BuiltinOperator.RESIZE_NEAREST_NEIGHBOR
    if max(code.builtinCode, code.deprecatedBuiltinCode) != kind or operator.builtinOptions.alignCorners:
        return None
    tensors = model.subgraphs[0].tensors
    small, large = tensors[operator.inputs[0]].shape, tensors[operator.outputs[0]].shape
    if min(*small, *large) < 1 or large[1] % small[1] or large[2] % small[2]:
        return None
    rows, columns = int(large[1] // small[1]), int(large[2] // small[2])
    return (rows, columns) if max(rows, columns) <= _MOST_COPIES else None


class _Rewriting:
    """Adds operations and tensors to a model."""

    def __init__(self, model: Any) -> None:
        self._model, self._graph = model, model.subgraphs[0]

    def copies(self, operator: Any, rows: int, columns: int) -> list[Any]:
        """Return the operations that repeat each cell of a map, in order."""
        source, target = int(operator.inputs[0]), int(operator.outputs[0])
        batch, height, width, channels = (int(side) for side in self._graph.tensors[source].shape)
        name = self._graph.tensors[target].name.decode()
        beside = self._like(target, f"{name}/cells", (batch, height, width, columns * channels))
        wide = self._like(target, f"{name}/wide", (batch, height, columns * width, channels))
        below = self._like(target, f"{name}/rows", (batch, height, rows * columns * width, channels))
        return [
            self._concatenation([source] * columns, beside, axis=3),
            self._reshape(beside, wide),
            self._concatenation([wide] * rows, below, axis=2),
            self._reshape(below, target),
        ]

    def _concatenation(self, inputs: list[int], output: int, *, axis: int) -> Any:
        options = schema.ConcatenationOptionsT()
        options.axis = axis
        return self._operator("CONCATENATION", "ConcatenationOptions", options, inputs, output)

    def _reshape(self, source: int, target: int) -> Any:
        shape = np.asarray(self._graph.tensors[target].shape, np.int32)
        options = schema.ReshapeOptionsT()
        options.newShape = shape
        constant = self._constant(f"{self._graph.tensors[target].name.decode()}/shape", shape)
        return self._operator("RESHAPE", "ReshapeOptions", options, [source, constant], target)

    def _operator(self, kind: str, union: str, options: Any, inputs: list[int], output: int) -> Any:
        operator = schema.OperatorT()
        operator.opcodeIndex = self._code(kind)
        operator.inputs, operator.outputs = inputs, [output]
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, union)
        operator.builtinOptions = options
        return operator

    def _code(self, kind: str) -> int:
        codes, builtin = self._model.operatorCodes, getattr(schema.BuiltinOperator, kind)
        for index, code in enumerate(codes):
            if max(code.builtinCode, code.deprecatedBuiltinCode) == builtin:
                return index
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = builtin
        code.version = _VERSIONS[kind]
        codes.append(code)
        return len(codes) - 1

    def _like(self, other: int, name: str, shape: tuple[int, ...]) -> int:
        """Add a tensor with the type and the scale of another one."""
        tensor = schema.TensorT()
        vars(tensor).update(vars(self._graph.tensors[other]))
        tensor.name, tensor.shape, tensor.shapeSignature, tensor.buffer = name.encode(), list(shape), None, 0
        return self._add(tensor)

    def _constant(self, name: str, value: Any) -> int:
        buffer, tensor = schema.BufferT(), schema.TensorT()
        buffer.data = list(value.tobytes())
        self._model.buffers.append(buffer)
        tensor.name, tensor.shape, tensor.type = name.encode(), [len(value)], schema.TensorType.INT32
        tensor.buffer = len(self._model.buffers) - 1
        return self._add(tensor)

    def _add(self, tensor: Any) -> int:
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1
