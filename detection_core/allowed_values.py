"""Allowed values of fields and options."""

import dataclasses
import math
from typing import Literal, get_args

Value = bool | int | float | str

DecodeImages = Literal["sample", "all", "none"]
ExifAnnotations = Literal["upright", "stored"]
UnannotatedImages = Literal["auto", "background", "leave_out"]
AnnotationFormat = Literal[
    "coco", "voc", "yolo", "cvat", "label_studio", "labelme", "csv", "createml", "via", "open_images",
    "tfrecord",
]  # fmt: skip
"""Keys of `datasets.readers.READERS`; readers registered by other packages are added."""

FileFormat = Literal[
    "float32", "float16", "dynamic_range", "int8", "int8_post_training", "int8_mixed",
    "int8_int8_input", "int8_float32_input", "int16x8", "int8_weights", "int4_weights",
    "int8_mixed_aware", "float16_aware", "dynamic_range_aware", "int16x8_aware", "int8_weights_aware",
    "int4_weights_aware",
]  # fmt: skip
"""Keys of `exporters.tflite_formats.FORMATS`."""

PredictionFormat = Literal[
    "pictures", "json", "jsonl", "coco_results", "csv", "coco", "voc", "yolo", "cvat", "label_studio",
]  # fmt: skip
"""What `detflow predict` writes; from `csv` on the keys of `datasets.annotation_writers.WRITERS`."""

TFLiteForm = Literal["post_process", "plain_nms", "headless"]
TFLITE_FORMS: tuple[TFLiteForm, ...] = get_args(TFLiteForm)
"""End of a TensorFlow Lite file: the operation TFLite_Detection_PostProcess, equivalent built-in operations,
or the network's heads.
"""
OPERATION = "TFLite_Detection_PostProcess"
"""The custom operator that decodes boxes and applies non-maximum suppression."""


@dataclasses.dataclass(frozen=True)
class Range:
    """An interval of numbers.

    Attributes:
        low: lower end.
        high: upper end.
        text: the interval in words.
        open_low: whether the lower end is excluded.
        open_high: whether the upper end is excluded.
    """

    low: float
    high: float
    text: str
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        """Return whether a number lies in the interval."""
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)


def up_to(high: float, low: float = 1) -> Range:
    """Return the interval from `low` to `high`; a higher value is a typing error or exhausts the memory."""
    return Range(low, high, f"a number from {low:,} to {high:,}")


FRACTION = Range(0, 1, "a number from 0 to 1")
POSITIVE_FRACTION = Range(0, 1, "a number above 0, up to 1", open_low=True)
DECAY = Range(0, 1, "a number from 0 to below 1", open_high=True)
POSITIVE = Range(0, math.inf, "a number above 0", open_low=True)
NOT_NEGATIVE = Range(0, math.inf, "0 or more")
SIDE = up_to(16_384)  # pixels of an image
SIDE_OR_NONE = up_to(16_384, 0)
CHANNELS = up_to(16_384, 0)
KERNEL = up_to(64)
LAYERS = up_to(100, 0)
BOXES = up_to(100_000)
FACTOR = Range(0, 16, "a number above 0, up to 16", open_low=True)
LEVEL = up_to(12, 0)
LOSS_SCALE = up_to(2**24)


@dataclasses.dataclass(frozen=True)
class Option:
    """One option of a registered part.

    Attributes:
        default: its value if a config does not set it; it also defines the option's type.
        allowed: interval of a number; None: any.
    """

    default: Value
    allowed: Range | None = None
