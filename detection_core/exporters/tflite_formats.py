"""Formats of TensorFlow Lite files: one record a format, and their table."""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any

from detection_core.bounded.plain_yaml import module_table
from detection_core.exporters import tflite


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
    convert: Callable[[tflite.Conversion], bytes]
    tolerance: Tolerance
    quantized: bool = True

    @property
    def integer(self) -> bool:
        """Whether the network has fake quantization, and runs in 8-bit integers."""
        return self.network.integer


_TABLE = module_table(__file__)


def _format(*, network: str, convert: str, tolerance: str, **rest: Any) -> FileFormat:
    return FileFormat(
        network=Network[network],
        convert=getattr(tflite, convert),
        tolerance=Tolerance(**_TABLE["tolerances"][tolerance]),
        **rest,
    )


FORMATS: Mapping[str, FileFormat] = {name: _format(**entry) for name, entry in _TABLE["formats"].items()}
"""Name of a format to its record; the file is `model_NAME.tflite`."""


def file_name(name: str, *, headless: bool = False) -> str:
    """Return the file name of a format, or of the file without post-processing beside it."""
    return f"model_{name}{'_headless' if headless else ''}.tflite"
