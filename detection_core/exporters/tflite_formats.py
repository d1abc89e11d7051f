"""Formats of TensorFlow Lite files: one record a format, and their table."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from detection_core.exporters import tflite

if TYPE_CHECKING:
    from detection_core.exporters.tflite import Conversion


class Network(enum.Enum):
    """Which of a detector's networks a file is made from."""

    FLOAT = "the float network"
    AWARE = "the quantization-aware network; without one the float network, quantized after training"
    POST_TRAINING = "the float network, quantized after training"
    MIXED = "the float network, quantized after training but for the layers that lose most by it"
    AWARE_MIXED = "the quantization-aware network but for the layers that lose most by it"
    STRIPPED = "the quantization-aware network without its fake quantization"

    @property
    def integer(self) -> bool:
        """Whether the network has fake quantization."""
        return self not in (Network.FLOAT, Network.STRIPPED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far a file may differ from its network. The accuracy bound is an option of the export.

    Attributes:
        heads_db: least signal-to-noise ratio of each raw head against the converted network, decibels. A
            lower ratio is more than rounding: a fault of the file.
        matched_boxes: least share of the SavedModel's detections that the file finds.
    """

    heads_db: float
    matched_boxes: float


# Measured on networks of 20 to 124 operations, and on trained ones with three seeds on two data sets. Lowest
# values: float32 95 dB, float16 58, int16x8 and int8_weights 34, dynamic_range 30, int8 against its fake
# quantization 26, int4_weights 11. A bound must also accept a barely trained network, whose box codes are
# near 0: 16 bits then give 19 dB.
_EXACT = Tolerance(heads_db=60.0, matched_boxes=0.9)
_HALF = Tolerance(heads_db=40.0, matched_boxes=0.9)
_FINE = Tolerance(heads_db=20.0, matched_boxes=0.8)
_COARSE = Tolerance(heads_db=10.0, matched_boxes=0.5)
_ROUGH = Tolerance(heads_db=3.0, matched_boxes=0.0)


@dataclasses.dataclass(frozen=True)
class FileFormat:
    """A kind of TensorFlow Lite file.

    Attributes:
        description: contents of the file, in a few words.
        network: the network to convert.
        convert: makes the file of it.
        tolerance: for raw heads and boxes in the parity check.
        quantized: whether anything in it is in integers.
    """

    description: str
    network: Network
    convert: Callable[[Conversion], bytes]
    tolerance: Tolerance
    quantized: bool = True

    @property
    def integer(self) -> bool:
        """Whether the network has fake quantization, and runs in 8-bit integers."""
        return self.network.integer


_FORMATS: Mapping[str, FileFormat] = {
    "float32": FileFormat("everything in float32", Network.FLOAT, tflite.to_float32, _EXACT, quantized=False),
    "float16": FileFormat(
        "weights in float16, computed in float32", Network.FLOAT, tflite.to_float16, _HALF, quantized=False
    ),
    "dynamic_range": FileFormat(
        "weights in 8 bits, activations turned into 8 bits as the file runs",
        Network.FLOAT,
        tflite.to_dynamic_range,
        _COARSE,
    ),
    "int8": FileFormat(
        "weights and activations in 8 bits, uint8 pixels", Network.AWARE, tflite.to_int8, _COARSE
    ),
    "int8_post_training": FileFormat(
        "as int8, quantized after training even beside a quantization-aware network",
        Network.POST_TRAINING,
        tflite.to_int8,
        _COARSE,
    ),
    "int8_mixed": FileFormat(
        "as int8_post_training, with layers in float32 until it loses little enough",
        Network.MIXED,
        tflite.to_int8,
        _COARSE,
    ),
    "int8_int8_input": FileFormat(
        "as int8, with int8 input: a pixel less 128", Network.AWARE, tflite.to_int8_of_int8, _COARSE
    ),
    "int8_float32_input": FileFormat(
        "as int8, with the input of float32", Network.AWARE, tflite.to_int8_of_float32, _COARSE
    ),
    "int16x8": FileFormat(
        "weights in 8 bits, activations in 16, the input of float32", Network.FLOAT, tflite.to_int16x8, _FINE
    ),
    "int8_weights": FileFormat(
        "weights in 8 bits, computed in float32", Network.FLOAT, tflite.to_int8_weights, _FINE
    ),
    "int4_weights": FileFormat(
        "weights in 4 bits, those of depthwise convolutions in 8, computed in float32",
        Network.FLOAT,
        tflite.to_int4_weights,
        _ROUGH,
    ),
    "int8_mixed_aware": FileFormat(
        "as int8 of the quantization-aware network, with layers in float32 likewise",
        Network.AWARE_MIXED,
        tflite.to_int8,
        _COARSE,
    ),
}
_OF_TRAINED_WEIGHTS = ("float16", "dynamic_range", "int16x8", "int8_weights", "int4_weights")

FORMATS: Mapping[str, FileFormat] = {
    **_FORMATS,
    **{
        f"{name}_aware": dataclasses.replace(
            _FORMATS[name],
            network=Network.STRIPPED,
            description=f"as {name}, of the weights that quantization-aware training gave",
        )
        for name in _OF_TRAINED_WEIGHTS
    },
}
"""Name of a format to its record; the file is `model_NAME.tflite`."""


def file_name(name: str) -> str:
    """Return the file name of a format."""
    return f"model_{name}.tflite"
