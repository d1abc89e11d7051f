"""Convert a function to TensorFlow Lite files."""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.artifacts.tflite_file import read_graph
from detection_core.config.messages.pipeline import tflite_problems
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.errors import ExportError
from detection_core.exporters import tflite_quantizer
from detection_core.exporters.signatures import SERVING_DEFAULT, save_signatures
from detection_core.storage.scratch_folder import ScratchFolder

_logger = logging.getLogger(__name__)

# Largest code of an int32 bias; the quantizers stay far below it.
MOST_BIAS = 2**30
_DEFAULT = (tf.lite.Optimize.DEFAULT,)


def check_convertible(config: PipelineConfig) -> None:
    """Refuse a config that a file with a fixed input cannot represent; ExportError names the field."""
    for problem in tflite_problems(config):
        raise ExportError(problem.message, where=problem.path)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
    """A function to convert.

    Attributes:
        function: result of a family's `tflite.function`, a concrete function: `input` float32 [1, H, W, 3] ->
            count, scores, classes, boxes. For an integer file its network has fake quantization.
        inputs: returns inputs for some images, each float32 [1, H, W, 3]; for formats whose conversion
            measures ranges.
    """

    function: Any
    inputs: Callable[[], Iterable[np.ndarray]] = tuple


def to_float32(conversion: Conversion) -> bytes:
    """Return a file in float32.

    Its input is `input` [1, H, W, 3], preprocessed as the backbone expects. Outputs of the signature, all
    float32: output_0 count [1], output_1 scores [1, D], output_2 classes [1, D] (from 0), output_3 boxes [1,
    D, 4]. All other formats have the same outputs; `tflite_formats.yaml` describes them.

    Raises:
        ExportError: if the converter refuses the model.
    """
    return _converted(conversion)


def to_int16x8(conversion: Conversion) -> bytes:
    """Return a file with int8 weights and int16 activations; see `to_float32`."""
    return tflite_quantizer.quantize_to_int16(to_float32(conversion), conversion.inputs())


def _integer(conversion: Conversion, input_type: Any) -> bytes:
    """Return a file whose network runs in int8; ExportError if a bias does not fit into 32 bits."""
    content = _converted(conversion, optimizations=_DEFAULT, input_type=input_type)
    check_biases(content)
    return content


def _converted(
    conversion: Conversion,
    *,
    optimizations: Sequence[Any] = (),
    types: Sequence[Any] = (),
    input_type: Any = tf.float32,
) -> bytes:
    with ScratchFolder() as folder, _quiet_converter():
        save_signatures({SERVING_DEFAULT: conversion.function}, folder)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.allow_custom_ops = True
        converter.optimizations = list(optimizations)
        converter.target_spec.supported_types = list(types)
        converter.inference_input_type = input_type
        try:
            return bytes(converter.convert())
        except Exception as error:
            raise ExportError(
                f"the TensorFlow Lite converter refused the model: {str(error).splitlines()[0]};"
                " try formats=float32, or leave out the layers that it names"
            ) from error


to_float16 = functools.partial(_converted, optimizations=_DEFAULT, types=(tf.float16,))
# The converter leaves weights with fewer than 1024 values in float32.
to_dynamic_range = functools.partial(_converted, optimizations=_DEFAULT)
to_int8, to_int8_of_int8, to_int8_of_float32 = (
    functools.partial(_integer, input_type=kind) for kind in (tf.uint8, tf.int8, tf.float32)
)
to_int8_weights, to_int4_weights = (
    lambda conversion, bits=bits: tflite_quantizer.quantize_weights(to_float32(conversion), bits)
    for bits in (tflite_quantizer.KERNEL_BITS_8, tflite_quantizer.KERNEL_BITS_4)
)


@contextlib.contextmanager
def _quiet_converter() -> Iterator[None]:
    """Suppress the converter's progress, which it logs as warnings."""
    tensorflow_logger = logging.getLogger("tensorflow")
    level = tensorflow_logger.level
    tensorflow_logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        tensorflow_logger.setLevel(level)


def integer_biases(content: bytes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Read the biases of a file's convolutions: every int32 constant with a scale.

    Returns:
        Name to int32 codes [C] and float64 scale [C] or [1]; the bias is their product.
    """
    return {
        tensor.name: (tensor.content.view("<i4"), np.asarray(tensor.quantization.scale))
        for tensor in read_graph(content).tensors
        if tensor.dtype == "int32" and tensor.is_constant and tensor.quantization
    }


def check_biases(content: bytes) -> None:
    """Refuse an integer file in which a bias leaves no room for the accumulated products.

    The converter itself silently clips a bias that does not fit.

    Raises:
        ExportError: names the first bias that does not fit.
    """
    for name, (codes, _) in integer_biases(content).items():
        too_large = np.flatnonzero(np.abs(codes.astype(np.int64)) > MOST_BIAS)
        if too_large.size:
            raise ExportError(
                f"expected biases up to {MOST_BIAS} in units of their scale, found"
                f" {codes[too_large[0]]} in channel {too_large[0]} of {name}, and"
                f" {too_large.size - 1} more there; report it with the model's pipeline.config, and export"
                " with formats=float32"
            )
