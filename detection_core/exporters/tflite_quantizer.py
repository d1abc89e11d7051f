"""Quantize a TensorFlow Lite file after conversion, with the package ai-edge-quantizer.

TensorFlow's own converter supports int16 activations, too. But a bias shared by several convolutions gets the
scale of one of them. Heads shared by pyramid levels are then wrong on all levels but one. It also quantizes
the post-processing, with classes and their number. It cannot quantize only the weights.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import types
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from ai_edge_litert.tools import flatbuffer_utils

from detection_core.artifacts.tflite_file import network_operators, read_graph
from detection_core.errors import ExportError
from detection_core.exporters.tflite_int16_biases import LEAST_RANGE, restore_biases

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    """Quantize the kernels of a float file to integers, with a scale for each output channel.

    Args:
        content: a TensorFlow Lite file in float32 without an archive at its end.
        bits: in the form of `KERNEL_BITS_8`.

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
                operation = operations[kind]
                recipe.add_static_config(
                    regex=scope, operation_name=operation, activation_num_bits=16, weight_num_bits=8
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
            "expected the package ai-edge-quantizer, which makes int16x8, int8_weights and int4_weights,"
            " found none; install it with `pip install 'detflow[quantizer]'`, or leave these formats out",
            where="formats",
        ) from error
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
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
