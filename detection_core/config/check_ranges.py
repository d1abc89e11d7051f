"""Ranges of single numbers, and pairs of numbers of which one bounds the other."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from detection_core.config.problems import Problem, child_path, walk_messages
from detection_core.data.label_map import MAX_CLASS_ID
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


def up_to(high: float, low: float = 1) -> Range:
    """Return the interval of what can be meant: above it a value is a slip, or asks for all the memory."""
    return Range(low, high, f"a number from {low:,} to {high:,}")


FRACTION = Range(0, 1, "a number from 0 to 1")
SHARE = Range(0, 1, "a number above 0, up to 1", open_low=True)
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
        "depth_multiplier": FACTOR,
        "pad_to_multiple": up_to(1_024),
        "num_classes": Range(-math.inf, MAX_CLASS_ID, f"a number up to {MAX_CLASS_ID:,}"),
        "logit_scale": POSITIVE,
        "y_scale": POSITIVE,
        "x_scale": POSITIVE,
        "height_scale": POSITIVE,
        "width_scale": POSITIVE,
        "length_scale": POSITIVE,
    },
    "ArgMaxMatcher": {"matched_threshold": FRACTION, "unmatched_threshold": FRACTION},
    "BatchNonMaxSuppression": {
        "max_detections_per_class": BOXES,
        "max_total_detections": BOXES,
        "max_classes_per_detection": BOXES,
        "score_threshold": NOT_NEGATIVE,
        "soft_nms_sigma": NOT_NEGATIVE,
    },
    "BatchNorm": {"decay": FRACTION, "epsilon": POSITIVE},
    "BidirectionalFeaturePyramidNetworks": {"num_iterations": up_to(100), "num_filters": up_to(16_384)},
    "ConvolutionalBoxPredictor": {
        "kernel_size": KERNEL,
        "box_code_size": POSITIVE,
        "min_depth": CHANNELS,
        "max_depth": CHANNELS,
        "num_layers_before_predictor": LAYERS,
    },
    "DropLabelProbabilistically": {"drop_probability": FRACTION},
    "EvalConfig": {
        "batch_size": POSITIVE,
        "min_score_threshold": FRACTION,
        "max_num_boxes_to_visualize": up_to(100_000, 0),
        "num_visualizations": up_to(100_000, 0),
        "recall_lower_bound": FRACTION,
        "recall_upper_bound": FRACTION,
    },
    "ExponentialDecayLearningRate": {"decay_steps": POSITIVE, "decay_factor": POSITIVE},
    "FeaturePyramidNetworks": {"additional_layer_depth": up_to(16_384)},
    "ConditionalShapeResizer": {"size_threshold": SIDE},
    "FixedShapeResizer": {"height": SIDE, "width": SIDE},
    "InputReader": {
        "shuffle_buffer_size": up_to(10_000_000, 0),
        "num_readers": up_to(1_024),
        "num_prefetch_batches": Range(-math.inf, 10_000, "a number up to 10,000; 0 and below: by itself"),
        "read_block_length": up_to(1_000_000),
        "max_number_of_boxes": up_to(100_000, 0),
        "num_keypoints": up_to(10_000, 0),
    },
    "KeepAspectRatioResizer": {"min_dimension": SIDE, "max_dimension": SIDE},
    "KeypointBoxCoder": {"num_keypoints": up_to(10_000)},
    "L1Regularizer": {"weight": NOT_NEGATIVE},
    "L2Regularizer": {"weight": NOT_NEGATIVE},
    "Loss": {"classification_weight": NOT_NEGATIVE, "localization_weight": NOT_NEGATIVE},
    "MeanStddevBoxCoder": {"stddev": POSITIVE},
    "MultiscaleAnchorGenerator": {
        "anchor_scale": POSITIVE,
        "scales_per_octave": up_to(64),
        "min_level": LEVEL,
        "max_level": LEVEL,
    },
    "Optimizer": {"moving_average_decay": DECAY},
    "PadToMultipleResizer": {"multiple": up_to(1_024)},
    "RandomAbsolutePadImage": {"max_height_padding": SIDE_OR_NONE, "max_width_padding": SIDE_OR_NONE},
    "RandomBlackPatches": {"max_black_patches": up_to(10_000, 0)},
    "RandomCropToAspectRatio": {"aspect_ratio": POSITIVE},
    "RandomImageScale": {"min_scale_ratio": FACTOR, "max_scale_ratio": FACTOR},
    "RMSPropOptimizer": {"decay": FRACTION, "epsilon": NOT_NEGATIVE},
    "RandomJpegQuality": {
        "min_jpeg_quality": Range(0, 100, "a number from 0 to 100"),
        "max_jpeg_quality": Range(0, 100, "a number from 0 to 100"),
    },
    "RandomNormalInitializer": {"stddev": NOT_NEGATIVE},
    "RandomPadImage": {
        "min_image_height": SIDE_OR_NONE,
        "min_image_width": SIDE_OR_NONE,
        "max_image_height": SIDE_OR_NONE,
        "max_image_width": SIDE_OR_NONE,
    },
    "RandomPatchGaussian": {"min_patch_size": SIDE_OR_NONE, "max_patch_size": SIDE_OR_NONE},
    "RandomResizeMethod": {"target_height": SIDE, "target_width": SIDE},
    "RandomScaleCropAndPadToSquare": {"output_size": SIDE, "scale_min": FACTOR, "scale_max": FACTOR},
    "RandomSelfConcatImage": {
        "concat_vertical_probability": FRACTION,
        "concat_horizontal_probability": FRACTION,
    },
    "RandomSquareCropByScale": {
        "max_border": SIDE_OR_NONE,
        "scale_min": FACTOR,
        "scale_max": FACTOR,
        "num_scales": up_to(10_000),
    },
    "ResizeImage": {"new_height": SIDE, "new_width": SIDE},
    "SSDRandomCropFixedAspectRatio": {"aspect_ratio": POSITIVE},
    "SSDRandomCropPadFixedAspectRatio": {"aspect_ratio": POSITIVE},
    "SsdAnchorGenerator": {"num_layers": up_to(64), "min_scale": POSITIVE, "max_scale": POSITIVE},
    "SsdFeatureExtractor": {
        "min_depth": Range(-math.inf, 16_384, "a number up to 16,384"),
        "num_layers": LAYERS,
    },
    "TrainConfig": {
        "batch_size": up_to(65_536),
        "gradient_clipping_by_norm": NOT_NEGATIVE,
        "max_number_of_boxes": BOXES,
    },
    "TruncatedNormalInitializer": {"stddev": NOT_NEGATIVE},
    "WeightSharedConvolutionalBoxPredictor": {
        "kernel_size": KERNEL,
        "box_code_size": POSITIVE,
        "depth": CHANNELS,
        "num_layers_before_predictor": LAYERS,
    },
    "WeightedSmoothL1LocalizationLoss": {"delta": POSITIVE},
}

# Upper bounds for which 0 means that there is none.
_ZERO_IS_OFF = {"max_depth", "max_image_height", "max_image_width"}
# Names of lower bounds and of the upper bounds that belong to them.
_PAIRS = (("min_", "max_"), ("minval", "maxval"), ("_min", "_max"), ("lower_bound", "upper_bound"))


def check_ranges(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find numbers that are not finite or out of range, and lower bounds above their upper bounds."""
    yield from range_problems(config, "")


def range_problems(message: Message, path: str) -> Iterator[Problem]:
    """Do the same for one message and what is below it.

    Args:
        message: any message of a config.
        path: its field path.
    """
    for place, part in walk_messages(message, path):
        yield from _numbers(place, part)
        yield from _bounds(place, part)


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
            yield Problem(path=child_path(path, field), message=f"expected {expected}, found {_shown(value)}")


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


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
