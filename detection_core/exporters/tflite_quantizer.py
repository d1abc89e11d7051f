"""Quantize a TensorFlow Lite file after conversion, with the package ai-edge-quantizer.

TensorFlow's own converter supports int16 activations, too. But a bias shared by several convolutions gets the
scale of one of them. Heads shared by pyramid levels are then wrong on all levels but one. It also quantizes
the post-processing, with classes and their number. It cannot quantize only the weights.
"""

import contextlib
import dataclasses
import io
import logging
import re
import types
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from ai_edge_litert.schema_py_generated import BufferT, BuiltinOperator, TensorType
from ai_edge_litert.tools import flatbuffer_utils

from detection_core.artifacts.tflite_file import network_operators, read_graph
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

    A bias counts in units of the input's scale times the kernel's. With int16 activations this unit is 256
    times finer than with int8. ai-edge-quantizer silently clips biases to 32 bits, though it stores 64. A
    class head with a strong bias to background and small kernels loses a third of its bias. LiteRT's int16
    kernels accumulate in 64 bits, accelerators in 40 bits (Ethos-U, by Vela's list of operators). A channel
    whose bias would exceed `MOST_BIAS` gets a coarser kernel: there the bias dominates.

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


def _convolutions(model: Any, source: Any) -> Iterator[_Convolution]:
    """Pair the convolutions of both files, which are in the same order."""
    quantized, plain = _weighted(model), _weighted(source)
    if [kind for kind, _ in quantized] != [kind for kind, _ in plain]:
        raise ExportError(
            f"expected the {len(plain)} convolutions of the float file, found {len(quantized)} others;"
            " leave int16x8 out, and report it with the model's pipeline.config",
            where="formats",
        )
    for (kind, operator), (_, float_operator) in zip(quantized, plain, strict=True):
        kernel, bias = _KERNEL_AND_BIAS[kind]
        tensors = model.subgraphs[0].tensors
        if len(operator.inputs) <= bias or operator.inputs[bias] < 0:
            continue
        if tensors[operator.inputs[bias]].type != TensorType.INT64:
            continue  # still in float32
        tensors[operator.inputs[bias]].buffer = len(model.buffers)  # a separate one
        model.buffers.append(BufferT())
        yield _Convolution(
            input=tensors[operator.inputs[_INPUTS.get(kind, 0)]],
            kernel=tensors[operator.inputs[kernel]],
            bias=tensors[operator.inputs[bias]],
            output=tensors[operator.outputs[0]],
            float_kernel=_constant(source, float_operator.inputs[kernel]),
            float_bias=_constant(source, float_operator.inputs[bias]).ravel(),
        )


def _weighted(model: Any) -> list[tuple[str, Any]]:
    """Return the operations with a kernel and their names, in order."""
    kinds = {getattr(BuiltinOperator, name): name for name in _KERNEL_AND_BIAS}
    codes = [max(code.builtinCode, code.deprecatedBuiltinCode) for code in model.operatorCodes]
    operators = model.subgraphs[0].operators
    return [(kinds[codes[o.opcodeIndex]], o) for o in operators if codes[o.opcodeIndex] in kinds]


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


KERNEL_BITS_8: Mapping[str, int] = dict.fromkeys(
    ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "CONV_2D_TRANSPOSE"), 8
)
"""Operation, by the package's name, to the bits of its weights."""
KERNEL_BITS_4: Mapping[str, int] = {**KERNEL_BITS_8, "CONV_2D": 4, "FULLY_CONNECTED": 4}
"""Depthwise kernels keep 8 bits: they are small, and LiteRT has no 4-bit kernel for them."""

# TensorFlow Lite's operation names to the package's where they differ.
_NAMES = {"TRANSPOSE_CONV": "CONV_2D_TRANSPOSE"}
_SIGNATURE = "serving_default"


def quantize_weights(content: bytes, bits: Mapping[str, int]) -> bytes:
    """Quantize the kernels of a float32 file to integers, with a scale for each output channel.

    The file has no archive at its end; `bits` are as in `KERNEL_BITS_8`.

    Raises:
        ExportError: if the package is missing, or refuses the file.
    """
    with _package() as package:
        recipe = package.recipe_manager.RecipeManager()
        for kind, width in bits.items():
            operation = package.qtyping.TFLOperationName[kind]
            recipe.add_weight_only_config(regex=".*", operation_name=operation, num_bits=width)
        task = package.quantizer.Quantizer(content, recipe.get_quantization_recipe())
        return _in_one(task.quantize(enable_progress_report=False).quantized_model)


def quantize_to_int16(content: bytes, inputs: Iterable[np.ndarray]) -> bytes:
    """Quantize the network of a float file to int8 weights and int16 activations.

    The post-processing, the input and operations without an int16 kernel stay in float32.

    Args:
        content: a TensorFlow Lite file in float32 without an archive at its end, with one signature.
        inputs: representative inputs for the ranges, float32 [1, H, W, 3].

    Raises:
        ExportError: as `quantize_weights`.
    """
    graph = read_graph(content)
    network = [graph.operators[position] for position in network_operators(graph)]
    outputs = sorted({graph.tensors[i].name for operator in network for i in operator.outputs})
    scope = f"^(?:{'|'.join(map(re.escape, outputs))});$"
    (name,) = (graph.signature_names[i] for i in graph.inputs)
    with _package() as package:
        recipe, operations = package.recipe_manager.RecipeManager(), package.qtyping.TFLOperationName
        for kind in sorted({_NAMES.get(o.name, o.name) for o in network}):
            if kind in operations.__members__:
                recipe.add_static_config(
                    regex=scope, operation_name=operations[kind], activation_num_bits=16, weight_num_bits=8
                )
        # Ranges are the extremes of all images: with 65536 values no clipping is needed. One thread,
        # for reproducible sums.
        calibrator = package.calibrator.Calibrator(
            content, num_threads=1, qsv_update_func=package.qsv_utils.min_max_update
        )
        for value in inputs:  # one by one, because the package makes a list of its input
            calibrator.calibrate({_SIGNATURE: [{name: value}]}, recipe)
        task = package.quantizer.Quantizer(content, recipe.get_quantization_recipe())
        found = task.quantize(_usable(calibrator.get_model_qsvs()), enable_progress_report=False)
        return restore_biases(_in_one(found.quantized_model), content)


def _usable(ranges: Mapping[str, Any]) -> dict[str, Any]:
    """Return measured ranges, name of a tensor to `min` and `max`, widened to the kernels' least."""
    return {
        name: {
            **found,
            "min": np.minimum(found["min"], -LEAST_RANGE / 2),
            "max": np.maximum(found["max"], LEAST_RANGE / 2),
        }
        for name, found in ranges.items()
    }


def _in_one(content: bytes) -> bytes:
    """Return a file with its weights inside the flatbuffer.

    For files from 256 KB on, the package stores weights from 1 KB on behind the flatbuffer. Rewriting the
    file, for example to add metadata, would lose them there.
    """
    model = flatbuffer_utils.read_model_from_bytearray(content)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


@contextlib.contextmanager
def _package() -> Iterator[Any]:
    """Yield the package's modules, and suppress its console output."""
    try:
        from ai_edge_quantizer import calibrator, qtyping, quantizer, recipe_manager
        from ai_edge_quantizer.utils import qsv_utils
    except ImportError as error:
        raise ExportError(
            "expected the package ai-edge-quantizer for int16x8, int8_weights and int4_weights, found none;"
            " install it with `pip install 'detflow[quantizer]'`, or remove these formats",
            where="formats",
        ) from error
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stderr(io.StringIO()):
            yield types.SimpleNamespace(
                calibrator=calibrator,
                qsv_utils=qsv_utils,
                qtyping=qtyping,
                quantizer=quantizer,
                recipe_manager=recipe_manager,
            )
    except (ValueError, RuntimeError, NotImplementedError) as error:
        raise ExportError(
            f"ai-edge-quantizer refused the model: {str(error).splitlines()[0]}; leave this format out",
            where="formats",
        ) from error
    finally:
        logging.disable(level)
