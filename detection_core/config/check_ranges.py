"""Ranges of single numbers, and pairs of numbers of which one bounds the other."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from detection_core.config.problems import Problem, child_path, walk_messages
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig


@dataclasses.dataclass(frozen=True)
class Range:
    """An interval of numbers.

    Attributes:
        low: lower end.
        high: upper end.
        text: the interval in words.
        open_low: whether the lower end is left out.
        open_high: whether the upper end is left out.
    """

    low: float
    high: float
    text: str
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        """Tell whether a number lies in the interval."""
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)


FRACTION = Range(0, 1, "a number from 0 to 1")
SHARE = Range(0, 1, "a number above 0, up to 1", open_low=True)
DECAY = Range(0, 1, "a number from 0 to below 1", open_high=True)
POSITIVE = Range(0, math.inf, "a number above 0", open_low=True)
NOT_NEGATIVE = Range(0, math.inf, "0 or more")

# Ranges by message and field; a message under "" stands for every message that has the field.
RANGES: dict[str, dict[str, Range]] = {
    "": {
        "probability": FRACTION,
        "random_coef": FRACTION,
        "min_object_covered": FRACTION,
        "overlap_thresh": FRACTION,
        "min_area": FRACTION,
        "max_area": FRACTION,
        "momentum_optimizer_value": FRACTION,
        "min_aspect_ratio": POSITIVE,
        "max_aspect_ratio": POSITIVE,
        "iou_threshold": FRACTION,
        "dropout_keep_probability": SHARE,
        "depth_multiplier": POSITIVE,
        "pad_to_multiple": POSITIVE,
        "logit_scale": POSITIVE,
        "y_scale": POSITIVE,
        "x_scale": POSITIVE,
        "height_scale": POSITIVE,
        "width_scale": POSITIVE,
        "length_scale": POSITIVE,
    },
    "ArgMaxMatcher": {"matched_threshold": FRACTION, "unmatched_threshold": FRACTION},
    "BatchNonMaxSuppression": {
        "max_detections_per_class": POSITIVE,
        "max_total_detections": POSITIVE,
        "max_classes_per_detection": POSITIVE,
        "soft_nms_sigma": NOT_NEGATIVE,
    },
    "BatchNorm": {"decay": FRACTION, "epsilon": POSITIVE},
    "BidirectionalFeaturePyramidNetworks": {"num_iterations": POSITIVE, "num_filters": POSITIVE},
    "ConvolutionalBoxPredictor": {"kernel_size": POSITIVE, "box_code_size": POSITIVE},
    "DropLabelProbabilistically": {"drop_probability": FRACTION},
    "EvalConfig": {
        "batch_size": POSITIVE,
        "min_score_threshold": FRACTION,
        "max_num_boxes_to_visualize": NOT_NEGATIVE,
        "recall_lower_bound": FRACTION,
        "recall_upper_bound": FRACTION,
    },
    "ExponentialDecayLearningRate": {"decay_steps": POSITIVE, "decay_factor": POSITIVE},
    "FeaturePyramidNetworks": {"additional_layer_depth": POSITIVE},
    "FixedShapeResizer": {"height": POSITIVE, "width": POSITIVE},
    "KeepAspectRatioResizer": {"min_dimension": POSITIVE, "max_dimension": POSITIVE},
    "L1Regularizer": {"weight": NOT_NEGATIVE},
    "L2Regularizer": {"weight": NOT_NEGATIVE},
    "Loss": {"classification_weight": NOT_NEGATIVE, "localization_weight": NOT_NEGATIVE},
    "MultiscaleAnchorGenerator": {"anchor_scale": POSITIVE, "scales_per_octave": POSITIVE},
    "Optimizer": {"moving_average_decay": DECAY},
    "PadToMultipleResizer": {"multiple": POSITIVE},
    "RMSPropOptimizer": {"decay": FRACTION, "epsilon": NOT_NEGATIVE},
    "RandomJpegQuality": {
        "min_jpeg_quality": Range(0, 100, "a number from 0 to 100"),
        "max_jpeg_quality": Range(0, 100, "a number from 0 to 100"),
    },
    "RandomNormalInitializer": {"stddev": NOT_NEGATIVE},
    "RandomSelfConcatImage": {
        "concat_vertical_probability": FRACTION,
        "concat_horizontal_probability": FRACTION,
    },
    "SsdAnchorGenerator": {"num_layers": POSITIVE, "min_scale": POSITIVE, "max_scale": POSITIVE},
    "TrainConfig": {"batch_size": POSITIVE, "gradient_clipping_by_norm": NOT_NEGATIVE},
    "TruncatedNormalInitializer": {"stddev": NOT_NEGATIVE},
    "WeightSharedConvolutionalBoxPredictor": {"kernel_size": POSITIVE, "box_code_size": POSITIVE},
    "WeightedSmoothL1LocalizationLoss": {"delta": POSITIVE},
}

# Upper bounds for which 0 means that there is none.
_ZERO_IS_OFF = {"max_depth", "max_image_height", "max_image_width"}
# Names of lower bounds and of the upper bounds that belong to them.
_PAIRS = (("min_", "max_"), ("minval", "maxval"), ("_min", "_max"), ("lower_bound", "upper_bound"))


def check_ranges(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find numbers that are not finite or out of range, and lower bounds above their upper bounds."""
    for path, message in walk_messages(config):
        yield from _numbers(path, message)
        yield from _bounds(path, message)


def _numbers(path: str, message: Message) -> Iterator[Problem]:
    ranges = RANGES[""] | RANGES.get(message.DESCRIPTOR.name, {})
    for field, value in message.ListFields():
        if not isinstance(value, int | float) or isinstance(value, bool):
            yield from _not_finite_elements(path, field, value)
            continue
        if not math.isfinite(value):
            message_text = f"expected a finite number of 32 bits, found {value}"
            yield Problem(path=child_path(path, field), message=message_text)
        elif field.name in ranges and not ranges[field.name].holds(value):
            expected = ranges[field.name].text
            yield Problem(path=child_path(path, field), message=f"expected {expected}, found {value:g}")


def _not_finite_elements(path: str, field: FieldDescriptor, value: Any) -> Iterator[Problem]:
    if not field.is_repeated or field.cpp_type != FieldDescriptor.CPPTYPE_FLOAT:
        return
    for i, element in enumerate(value):
        if not math.isfinite(element):
            message = f"expected a finite number of 32 bits, found {element}"
            yield Problem(path=child_path(path, field, i), message=message)


def _bounds(path: str, message: Message) -> Iterator[Problem]:
    """Compare bounds where at least one of the two is given; the other may be the schema's default."""
    fields = cast(Descriptor, message.DESCRIPTOR).fields_by_name
    for low in fields.values():
        high = next((fields.get(low.name.replace(a, b, 1)) for a, b in _PAIRS if a in low.name), None)
        if high is None or high is low or low.is_repeated or low.cpp_type not in _ORDERED:
            continue
        low_value, high_value = getattr(message, low.name), getattr(message, high.name)
        given = message.HasField(low.name) or message.HasField(high.name)
        off = high.name in _ZERO_IS_OFF and high_value == 0
        if given and not off and low_value > high_value:
            text = f"expected at most {high.name}, which is {high_value:g}, found {low_value:g}"
            yield Problem(path=child_path(path, low), message=text)


_ORDERED = {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_FLOAT}
