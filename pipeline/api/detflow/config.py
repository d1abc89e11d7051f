"""Export formats and quantization: `ExportFormat` and `QuantizationConfig`."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from detection_core.errors import ConfigError, shorten
from detflow.argument_checks import check_counts

if TYPE_CHECKING:
    from detflow.object_detector.data_loader import DataLoader

__all__ = ["ExportFormat", "QuantizationConfig"]

CALIBRATION_IMAGES = 500
"""Default number of calibration images of an int8 file."""

_INT8_FORMATS = {"uint8": "int8", "int8": "int8_int8_input", "float32": "int8_float32_input"}
_ALLOWED = {
    "inference_input_type": tuple(_INT8_FORMATS),
    "inference_output_type": ("uint8", "float32"),
    "supported_ops": ("TFLITE_BUILTINS", "TFLITE_BUILTINS_INT8"),
    "supported_types": ("float16",),
}


class ExportFormat(enum.Enum):
    """Formats of `export`. `TFJS` and `VOCAB`, which Model Maker has for other tasks, are refused."""

    TFLITE = "TFLITE"
    SAVED_MODEL = "SAVED_MODEL"
    LABEL = "LABEL"
    VOCAB = "VOCAB"
    TFJS = "TFJS"


@dataclasses.dataclass(eq=False, repr=False)
class QuantizationConfig:
    """Post-training quantization of a file, with Model Maker's arguments.

    Types are TensorFlow's, or their names.

    Attributes:
        optimizations: of the converter; an empty list means a float32 file.
        representative_data: calibration images of an int8 file.
        quantization_steps: number of calibration images; None without images.
        inference_input_type: uint8, int8 or float32, the input type of an int8 file; None: uint8.
        inference_output_type: uint8, float32 or None, without effect: detections are float32.
        supported_types: float16, or None.

    Raises:
        ConfigError: for an unsupported type or set of operations, naming the argument.
    """

    optimizations: Any = None
    representative_data: DataLoader | None = None
    quantization_steps: int | None = None
    inference_input_type: Any = None
    inference_output_type: Any = None
    supported_ops: Any = None
    supported_types: Any = None
    experimental_new_quantizer: bool | None = None

    def __post_init__(self) -> None:
        for argument, allowed in _ALLOWED.items():
            for name in _listed(getattr(self, argument)):
                if name not in allowed:
                    raise ConfigError(
                        f"expected {' or '.join(allowed)}, found {shorten(name)}; leave it out for what files"
                        " have",
                        where=argument,
                    )
        check_counts(quantization_steps=self.quantization_steps)
        self.optimizations = ["DEFAULT"] if self.optimizations is None else _listed(self.optimizations)
        if self.representative_data is not None and self.quantization_steps is None:
            self.quantization_steps = CALIBRATION_IMAGES

    @classmethod
    def for_dynamic(cls) -> QuantizationConfig:
        """Request dynamic-range quantization: 8-bit weights, float32 activations quantized at run time."""
        return cls()

    @classmethod
    def for_int8(
        cls,
        representative_data: DataLoader,
        quantization_steps: int = CALIBRATION_IMAGES,
        inference_input_type: Any = "uint8",
        inference_output_type: Any = "uint8",
        supported_ops: Any = "TFLITE_BUILTINS_INT8",
    ) -> QuantizationConfig:
        """Request int8 weights and activations, with ranges from calibration images.

        Args:
            representative_data: calibration images.
            quantization_steps: number of images.
            inference_input_type: uint8, int8 or float32.
            inference_output_type: uint8 or float32; detections are float32 in either case.
            supported_ops: TensorFlow Lite op sets.

        Raises:
            ConfigError: as in the constructor.
        """
        return cls(
            representative_data=representative_data,
            quantization_steps=quantization_steps,
            inference_input_type=inference_input_type,
            inference_output_type=inference_output_type,
            supported_ops=supported_ops,
        )

    @classmethod
    def for_float16(cls) -> QuantizationConfig:
        """Request float16 weights."""
        return cls(supported_types="float16")

    @property
    def file_format(self) -> str:
        """Name of the exporter's format, such as `float16`; for int8 it depends on the input type."""
        if self.supported_types:
            return "float16"
        if self.representative_data is not None:
            (input_type,) = _listed(self.inference_input_type) or ["uint8"]
            return _INT8_FORMATS[input_type]
        return "dynamic_range" if self.optimizations else "float32"

    def __repr__(self) -> str:
        steps = f", quantization_steps={self.quantization_steps}" if self.quantization_steps else ""
        return f"QuantizationConfig(file_format={self.file_format!r}{steps})"


def _listed(value: Any) -> list[str]:
    """Return the names of one or several texts, TensorFlow types or enumerations."""
    if value is None:
        return []
    values = value if isinstance(value, Sequence | set) and not isinstance(value, str) else [value]
    return [str(getattr(item, "name", item)) for item in values]
