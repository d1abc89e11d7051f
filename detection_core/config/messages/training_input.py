"""Input readers, augmentations of training images, and the sizes of multi-scale training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.allowed_values import (
    FACTOR,
    FRACTION,
    POSITIVE,
    POSITIVE_FRACTION,
    SIDE,
    SIDE_OR_NONE,
    Range,
    up_to,
)
from detection_core.config.messages.registered import registered_problems
from detection_core.detectors.rules import Check, Rules
from detection_core.errors import Problem
from detection_core.protos import preprocessor_pb2 as pb
from detection_core.protos.automl_input_pb2 import AutomlScaleJitter
from detection_core.protos.input_reader_pb2 import InputReader
from detection_core.protos.recipe_pb2 import LargeScaleJitter, MultiScale
from detection_core.protos.train_pb2 import TrainConfig


def _reader(reader: InputReader, path: str) -> Iterator[Problem]:
    """Find lists that do not match; missing files are reported when they are read."""
    yield from _weights(reader, path)
    kinds = len(reader.keypoint_type_weight)
    if kinds not in (0, reader.num_keypoints):
        message = (
            f"expected a weight for each of num_keypoints, {reader.num_keypoints}, or none, found {kinds};"
            " give one each"
        )
        yield Problem(path=f"{path}.keypoint_type_weight", message=message)
    if reader.decode_at_reduced_size and reader.load_instance_masks:
        message = (
            "expected false with load_instance_masks, as masks have the size of their image, found true;"
            " remove one of them"
        )
        yield Problem(path=f"{path}.decode_at_reduced_size", message=message)


def _weights(reader: InputReader, path: str) -> Iterator[Problem]:
    weights, inputs = len(reader.sample_from_datasets_weights), len(reader.tf_record_input_reader.input_path)
    if weights and weights != inputs:
        message = (
            f"expected one weight for each of {inputs} input paths, found {weights}; give one each, or none"
        )
        yield Problem(path=f"{path}.sample_from_datasets_weights", message=message)
    for i, weight in enumerate(reader.sample_from_datasets_weights):
        if not weight > 0:
            message = f"expected a weight above 0, found {weight:g}; remove an input that is not to be read"
            yield Problem(path=f"{path}.sample_from_datasets_weights[{i}]", message=message)


_QUEUE = "input is a tf.data pipeline, not a queue"
_THREADS = "tf.data spreads the work over threads by itself"
_CONTEXT = "context features are not used by any model here"


POLICIES = {"v0": True, "v1": True, "v2": False, "v3": False, "test": False, "randaug": False}
"""Policies, and whether they move box contents, which keypoints cannot follow."""

UNSET_MAX_TARGET_PIXELS = 800_000
"""Value of an unset max_target_pixels: the schema says 500,000, but detectors were trained with this."""


def _step(message: pb.PreprocessingStep, path: str) -> Iterator[Problem]:
    arm = message.WhichOneof("preprocessing_step")
    if arm is None:
        text = "expected one augmentation, found none; name one or remove this"
        yield Problem(path=path, message=text)
    if arm == "registered":
        yield from registered_problems("augmentation", message.registered, f"{path}.{arm}")


def _padded(message: Any, path: str) -> Iterator[Problem]:
    fields = message.DESCRIPTOR.fields_by_name
    for name in ("min_padded_size_ratio", "max_padded_size_ratio"):
        count = len(getattr(message, name)) if name in fields else 0
        if count not in (0, 2):
            text = f"expected 2 values (rows, columns) or none, found {count}"
            yield Problem(path=f"{path}.{name}", message=text)
    for name in ("pad_color", "per_channel_pad_value"):
        colours = len(getattr(message, name)) if name in fields else 0
        if colours not in (0, 3):
            text = f"expected 3 values or none, found {colours}; give R, G and B"
            yield Problem(path=f"{path}.{name}", message=text)


def _pad(message: pb.RandomPadImage, path: str) -> Iterator[Problem]:
    yield from _padded(message, path)
    for bound in ("min", "max"):
        height, width = f"{bound}_image_height", f"{bound}_image_width"
        if message.HasField(height) != message.HasField(width):
            text = f"expected {height} and {width} together, found one alone; set both or none"
            yield Problem(path=f"{path}.{height}", message=text)


def _downscale(message: pb.RandomDownscaleToTargetPixels, path: str) -> Iterator[Problem]:
    unset = not message.HasField("max_target_pixels")
    most = UNSET_MAX_TARGET_PIXELS if unset else message.max_target_pixels
    if message.min_target_pixels > most:
        text = f"expected at most max_target_pixels, which is {most:,}, found {message.min_target_pixels:,}"
        yield Problem(path=f"{path}.min_target_pixels", message=text)


def _normalize(message: pb.NormalizeImage, path: str) -> Iterator[Problem]:
    if message.original_minval == message.original_maxval:
        text = f"expected another number than original_minval, {message.original_minval:g}"
        yield Problem(path=f"{path}.original_maxval", message=text)


def _softmax(message: pb.ConvertClassLogitsToSoftmax, path: str) -> Iterator[Problem]:
    if message.temperature == 0.0:
        text = "expected another number than 0, which logits are divided by"
        yield Problem(path=f"{path}.temperature", message=text)


def _policy(message: pb.AutoAugmentImage, path: str) -> Iterator[Problem]:
    if message.policy_name not in POLICIES:
        text = f"expected one of {', '.join(POLICIES)}, found {message.policy_name[:60]!r}"
        yield Problem(path=f"{path}.policy_name", message=text)


def _jitter_frame(message: AutomlScaleJitter, path: str) -> Iterator[Problem]:
    yield from _padded(message, path)
    yield from _scales(message, path)
    if bool(message.target_height) != bool(message.target_width):
        text = "expected target_height and target_width together, found one alone; set both or none"
        yield Problem(path=f"{path}.target_height", message=text)


def _means(message: pb.SubtractChannelMean, path: str) -> Iterator[Problem]:
    if len(message.means) != 3:
        text = f"expected 3 means, found {len(message.means)}; give R, G and B"
        yield Problem(path=f"{path}.means", message=text)


_PERMUTATIONS = {
    "random_horizontal_flip": "keypoint_flip_permutation",
    "random_vertical_flip": "keypoint_flip_permutation",
    "random_rotation90": "keypoint_rot_permutation",
}


def reading_problems(train: TrainConfig, reader: InputReader) -> Iterator[Problem]:
    """Find steps that need unread input, or whose output no extractor accepts."""
    for i, message in enumerate(train.data_augmentation_options):
        arm = message.WhichOneof("preprocessing_step")
        if arm is None:
            continue
        path = f"train_config.data_augmentation_options[{i}].{arm}"
        if arm == "convert_class_logits_to_softmax" and not reader.load_multiclass_scores:
            text = "expected scores to convert, found none; set"
            yield Problem(path=path, message=f"{text} train_input_reader.load_multiclass_scores: true")
        if arm == "rgb_to_gray":
            text = (
                "expected three channels, as every extractor here takes, found a step that leaves one; use"
                " random_rgb_to_gray { probability: 1 }, which keeps three equal ones"
            )
            yield Problem(path=path, message=text)
        if reader.num_keypoints:
            yield from _keypoints(reader.num_keypoints, arm, getattr(message, arm), path)


def _keypoints(count: int, arm: str, step: Any, path: str) -> Iterator[Problem]:
    name = _PERMUTATIONS.get(arm, "")
    permutation = list(getattr(step, name, []))
    # A rotation does not swap left and right keypoints, so it needs no permutation.
    optional = arm == "random_rotation90" and not permutation
    if name and not optional and sorted(permutation) != list(range(count)):
        text = (
            f"expected each of 0 to {count - 1} once, as train_input_reader.num_keypoints is {count}, found"
            f" {permutation[:20] or 'none'}; tell which keypoint each becomes"
        )
        yield Problem(path=f"{path}.{name}", message=text)
    if arm == "autoaugment_image" and POLICIES.get(step.policy_name):
        kept = [policy for policy, moves in POLICIES.items() if not moves]
        text = (
            f"expected {' or '.join(kept)} beside keypoints, found {step.policy_name}, which moves what is"
            " inside boxes to where keypoints cannot follow; use one of them"
        )
        yield Problem(path=f"{path}.policy_name", message=text)


_AREA = {"min_area": POSITIVE_FRACTION}
_CROP = {**_AREA, "min_aspect_ratio": POSITIVE}
_QUALITY = Range(0, 100, "a number from 0 to 100")


def _crop(ranges: Mapping[str, Range] = _CROP, check: Check = _padded) -> Rules:
    return Rules(ranges=ranges, check=check)


_MIXED_SIDE = up_to(16_384, 2)
_MOST_SCALES = 9
_POINT = Range(0, 0.5, "a number from 0 to below 0.5", open_high=True)


def _scales(message: Any, path: str) -> Iterator[Problem]:
    if message.scale_max < message.scale_min:
        text = f"expected at least scale_min, which is {message.scale_min:g}, found {message.scale_max:g}"
        yield Problem(path=f"{path}.scale_max", message=f"{text}; exchange them")


def _jitter(message: LargeScaleJitter, path: str) -> Iterator[Problem]:
    yield from _scales(message, path)
    yield from _padded(message, path)


def _many_scales(message: MultiScale, path: str) -> Iterator[Problem]:
    """Find too many sizes, because each one is compiled."""
    if len(message.scale) > _MOST_SCALES:
        text = f"expected at most {_MOST_SCALES} scales, found {len(message.scale)}; each is compiled"
        yield Problem(path=f"{path}.scale", message=text)


_PIXEL = Range(0, 255, "a number from 0 to 255")
_SCALES = {"scale_min": FACTOR, "scale_max": FACTOR}


RULES: Mapping[str, Rules] = {
    "InputReader": Rules(
        ranges={
            "shuffle_buffer_size": up_to(10_000_000, 0),
            "num_readers": up_to(1_024),
            "num_prefetch_batches": Range(-math.inf, 10_000, "a number up to 10,000; 0 and below: by itself"),
            "read_block_length": up_to(1_000_000),
            "max_number_of_boxes": up_to(100_000, 0),
            "num_keypoints": up_to(10_000, 0),
            "repeat_factor_threshold": FRACTION,
            "sample_1_of_n_examples": Range(1, math.inf, "1 or more"),
        },
        check=_reader,
        without_effect={
            "name": "a reader needs no name",
            "filenames_shuffle_buffer_size": "all file names are shuffled",
            "queue_capacity": _QUEUE,
            "min_after_dequeue": _QUEUE,
            "prefetch_size": _THREADS,
            "num_parallel_batches": _THREADS,
            "num_parallel_map_calls": _THREADS,
            "drop_remainder": "training takes full batches, evaluation every image",
            "use_display_name": "names and display names are both looked up",
            "include_source_id": "the source id is always read",
            "load_context_features": _CONTEXT,
            "load_context_image_ids": _CONTEXT,
        },
        refused={
            "num_additional_channels": "images have three channels; set it to 0",
            "load_dense_pose": "DensePose surfaces are not read; set it to false",
            "load_track_id": "tracks are not read; set it to false",
            "frame_index": "single frames of sequence examples are not read; write each frame as a "
            "tf.Example",
            "expand_labels_hierarchy": "it adds ancestors to an image's labels, not to its boxes; write them "
            "into image/class/label",
            "external_input_reader": "it names a reader that is not part of this project; write TFRecords "
            "and use tf_record_input_reader",
        },
        refused_values={"input_type": {"TF_SEQUENCE_EXAMPLE": "write each frame as a tf.Example"}},
    ),
    "PreprocessingStep": Rules(check=_step),
    "AutomlGridMask": Rules(
        ranges={"ratio": POSITIVE_FRACTION, "gridmask_size_ratio": Range(0, 16, "a number from 0 to 16")}
    ),
    "AutomlScaleJitter": Rules(
        ranges={
            "height": SIDE,
            "width": SIDE,
            "target_height": SIDE_OR_NONE,
            "target_width": SIDE_OR_NONE,
            "scale_min": FACTOR,
            "scale_max": FACTOR,
        },
        check=_jitter_frame,
    ),
    "AutoAugmentImage": Rules(check=_policy),
    "ConvertClassLogitsToSoftmax": Rules(check=_softmax),
    "DropLabelProbabilistically": Rules(ranges={"drop_probability": FRACTION}),
    "NormalizeImage": Rules(check=_normalize),
    "RandomAbsolutePadImage": Rules(
        ranges={"max_height_padding": SIDE_OR_NONE, "max_width_padding": SIDE_OR_NONE}, check=_padded
    ),
    "RandomBlackPatches": Rules(ranges={"max_black_patches": up_to(10_000, 0)}),
    "RandomCropImage": _crop(_AREA),
    "RandomCropPadImage": _crop(_AREA),
    "RandomCropToAspectRatio": Rules(ranges={"aspect_ratio": POSITIVE}),
    "RandomDistortColor": Rules(ranges={"color_ordering": Range(0, 1, "0 or 1")}),
    "RandomDownscaleToTargetPixels": Rules(ranges={"min_target_pixels": POSITIVE}, check=_downscale),
    "RandomImageScale": Rules(ranges={"min_scale_ratio": FACTOR, "max_scale_ratio": FACTOR}),
    "RandomJpegQuality": Rules(ranges={"min_jpeg_quality": _QUALITY, "max_jpeg_quality": _QUALITY}),
    "RandomPadImage": Rules(
        ranges={
            "min_image_height": SIDE_OR_NONE,
            "min_image_width": SIDE_OR_NONE,
            "max_image_height": SIDE_OR_NONE,
            "max_image_width": SIDE_OR_NONE,
        },
        check=_pad,
    ),
    "RandomPatchGaussian": Rules(ranges={"min_patch_size": SIDE_OR_NONE, "max_patch_size": SIDE_OR_NONE}),
    "RandomResizeMethod": Rules(ranges={"target_height": SIDE, "target_width": SIDE}),
    "RandomScaleCropAndPadToSquare": Rules(
        ranges={"output_size": SIDE, "scale_min": FACTOR, "scale_max": FACTOR}
    ),
    "RandomSelfConcatImage": Rules(
        ranges={"concat_vertical_probability": FRACTION, "concat_horizontal_probability": FRACTION}
    ),
    "RandomSquareCropByScale": Rules(
        ranges={
            "max_border": SIDE_OR_NONE,
            "scale_min": FACTOR,
            "scale_max": FACTOR,
            "num_scales": up_to(10_000),
        }
    ),
    "ResizeImage": Rules(ranges={"new_height": SIDE, "new_width": SIDE}),
    "SSDRandomCrop": _crop({}),
    "SSDRandomCropOperation": _crop(),
    "SSDRandomCropPad": _crop({}),
    "SSDRandomCropPadOperation": _crop(),
    "SSDRandomCropFixedAspectRatio": _crop({"aspect_ratio": POSITIVE}),
    "SSDRandomCropFixedAspectRatioOperation": _crop(_AREA),
    "SSDRandomCropPadFixedAspectRatio": _crop({"aspect_ratio": POSITIVE}),
    "SSDRandomCropPadFixedAspectRatioOperation": _crop(),
    "SubtractChannelMean": Rules(check=_means),
    "Mosaic": Rules(
        ranges={
            "height": _MIXED_SIDE,
            "width": _MIXED_SIDE,
            "min_fraction": _POINT,
            "min_visible": FRACTION,
            "per_channel_pad_value": _PIXEL,
        },
        check=_padded,
    ),
    "MixUp": Rules(ranges={"alpha": Range(0.01, 100, "a number from 0.01 to 100")}),
    "CopyPaste": Rules(
        ranges={"object_probability": FRACTION, **_SCALES, "min_visible": FRACTION}, check=_scales
    ),
    "LargeScaleJitter": Rules(
        ranges={
            "height": SIDE,
            "width": SIDE,
            **_SCALES,
            "min_visible": FRACTION,
            "per_channel_pad_value": _PIXEL,
        },
        check=_jitter,
    ),
    "MultiScale": Rules(
        ranges={
            "scale": Range(0.25, 4, "a number from 0.25 to 4"),
            "steps_per_scale": up_to(1_000_000),
        },
        check=_many_scales,
    ),
}
