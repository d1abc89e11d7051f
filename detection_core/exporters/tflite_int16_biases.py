"""Write biases of more than 32 bits correctly in files with int16 activations.

A bias counts in units of the input's scale times the kernel's. With int16 activations this unit is 256 times
finer than with int8. ai-edge-quantizer silently clips biases to 32 bits, though it stores 64. A class head
with a strong bias to background and small kernels loses a third of its bias. LiteRT's int16 kernels
accumulate in 64 bits, accelerators in 40 bits (Ethos-U, by Vela's list of operators).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from ai_edge_litert.schema_py_generated import BufferT, BuiltinOperator, TensorType
from ai_edge_litert.tools import flatbuffer_utils

from detection_core.errors import ExportError

MOST_BIAS = 2.0**38
"""Largest code of a bias: 40 bits hold it and the accumulated products."""
LEAST_MULTIPLIER = 2.0**-30
"""Least ratio of a bias's scale to the output's: LiteRT rounds one below 2^-32 to 0."""
LEAST_RANGE = 2.0**-12
"""Least range of an activation: LiteRT refuses a file in which the 6 of a ReLU6 exceeds 2^31 steps."""

_KERNEL_AND_BIAS = {
    "CONV_2D": (1, 2),
    "DEPTHWISE_CONV_2D": (1, 2),
    "FULLY_CONNECTED": (1, 2),
    "TRANSPOSE_CONV": (1, 3),
}
"""Operation to the indices of kernel and bias among its inputs."""
_INPUTS = {"TRANSPOSE_CONV": 2}
_MOST_CODE = 127


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Convolution:
    """The tensors of a quantized convolution, and its float kernel (in the same layout) and bias [C]."""

    input: Any
    kernel: Any
    bias: Any
    output: Any
    float_kernel: np.ndarray
    float_bias: np.ndarray

    def least_scale(self) -> np.ndarray:
        """Return float64 [C], the least kernel scale that fits the bias and does not round the sum to 0."""
        step = _scale(self.input)
        fitting = np.abs(self.float_bias) / (step * MOST_BIAS)
        heard = np.full_like(fitting, LEAST_MULTIPLIER * _scale(self.output) / step)
        return np.maximum(fitting, heard)


def restore_biases(content: bytes, float_content: bytes) -> bytes:
    """Restore the full biases of a file's int16 convolutions.

    A channel whose bias would exceed `MOST_BIAS` gets a coarser kernel: there the bias dominates.

    Args:
        content: with int16 activations, from ai-edge-quantizer.
        float_content: its float32 source file.

    Raises:
        ExportError: if the files have different convolutions.
    """
    model = flatbuffer_utils.read_model_from_bytearray(bytearray(content))
    source = flatbuffer_utils.read_model_from_bytearray(bytearray(float_content))
    by_kernel: dict[int, list[_Convolution]] = {}
    for convolution in _convolutions(model, source):
        by_kernel.setdefault(int(convolution.kernel.buffer), []).append(convolution)
    for sharing in by_kernel.values():
        _coarsen(model, sharing)
        for one in sharing:
            scale = _scale(one.input) * np.asarray(one.kernel.quantization.scale, np.float64)
            one.bias.quantization.scale = scale.astype(np.float32)
            codes = np.round(one.float_bias / scale).astype("<i8")
            model.buffers[one.bias.buffer].data = np.frombuffer(codes.tobytes(), np.uint8)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


def _convolutions(model: Any, source: Any) -> list[_Convolution]:
    """Pair the convolutions of both files, which are in the same order."""
    quantized, plain = _weighted(model), _weighted(source)
    if [kind for kind, _ in quantized] != [kind for kind, _ in plain]:
        raise ExportError(
            f"expected the {len(plain)} convolutions of the float file, found {len(quantized)} others;"
            " leave int16x8 out, and report it with the model's pipeline.config",
            where="formats",
        )
    found = []
    for (kind, operator), (_, float_operator) in zip(quantized, plain, strict=True):
        kernel, bias = _KERNEL_AND_BIAS[kind]
        tensors = model.subgraphs[0].tensors
        if len(operator.inputs) <= bias or operator.inputs[bias] < 0:
            continue
        if tensors[operator.inputs[bias]].type != TensorType.INT64:
            continue  # still in float32
        place = operator.inputs[_INPUTS.get(kind, 0)]
        found.append(
            _Convolution(
                input=tensors[place],
                kernel=tensors[operator.inputs[kernel]],
                bias=_own_buffer(model, tensors[operator.inputs[bias]]),
                output=tensors[operator.outputs[0]],
                float_kernel=_constant(source, float_operator.inputs[kernel]),
                float_bias=_constant(source, float_operator.inputs[bias]).ravel(),
            )
        )
    return found


def _weighted(model: Any) -> list[tuple[str, Any]]:
    """Return the operations with a kernel and their names, in order."""
    kinds = {getattr(BuiltinOperator, name): name for name in _KERNEL_AND_BIAS}
    codes = [max(code.builtinCode, code.deprecatedBuiltinCode) for code in model.operatorCodes]
    operators = model.subgraphs[0].operators
    return [(kinds[codes[o.opcodeIndex]], o) for o in operators if codes[o.opcodeIndex] in kinds]


def _own_buffer(model: Any, tensor: Any) -> Any:
    """Give a tensor a separate buffer."""
    model.buffers.append(BufferT())
    tensor.buffer = len(model.buffers) - 1
    return tensor


def _coarsen(model: Any, sharing: Sequence[_Convolution]) -> None:
    """Give a shared kernel a scale at which the biases of all its convolutions fit."""
    kernel, numbers = sharing[0].kernel, sharing[0].float_kernel
    old = np.asarray(kernel.quantization.scale, np.float64)
    new = np.maximum.reduce([old, *(np.broadcast_to(one.least_scale(), old.shape) for one in sharing)])
    if np.array_equal(new, old):
        return
    shape = [1] * numbers.ndim
    shape[kernel.quantization.quantizedDimension] = -1
    codes = np.clip(np.round(numbers / new.reshape(shape)), -_MOST_CODE, _MOST_CODE).astype(np.int8)
    model.buffers[kernel.buffer].data = np.frombuffer(codes.tobytes(), np.uint8)
    for one in sharing:
        one.kernel.quantization.scale = new.astype(np.float32)


def _constant(model: Any, index: int) -> np.ndarray:
    tensor = model.subgraphs[0].tensors[index]
    data = np.asarray(model.buffers[tensor.buffer].data, np.uint8)
    return np.frombuffer(data.tobytes(), "<f4").reshape(tensor.shape).astype(np.float64)


def _scale(tensor: Any) -> float:
    (scale,) = tensor.quantization.scale
    return float(scale)
