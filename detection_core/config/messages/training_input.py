"""Input readers, augmentations of training images, and the sizes of multi-scale training."""

from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.config.messages.registered import registered_problems
from detection_core.detectors.rules import Check
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
                "expected three channels, found a step that leaves one; use random_rgb_to_gray"
                " { probability: 1 }, which keeps three equal ones"
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


_MOST_SCALES = 9


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


CHECKS: Mapping[str, Check] = {
    "InputReader": _reader,
    "PreprocessingStep": _step,
    "AutomlScaleJitter": _jitter_frame,
    "AutoAugmentImage": _policy,
    "ConvertClassLogitsToSoftmax": _softmax,
    "NormalizeImage": _normalize,
    "RandomAbsolutePadImage": _padded,
    "RandomDownscaleToTargetPixels": _downscale,
    "RandomPadImage": _pad,
    "SubtractChannelMean": _means,
    "Mosaic": _padded,
    "CopyPaste": _scales,
    "LargeScaleJitter": _jitter,
    "MultiScale": _many_scales,
    **dict.fromkeys(
        (
            "RandomCropImage",
            "RandomCropPadImage",
            "SSDRandomCrop",
            "SSDRandomCropOperation",
            "SSDRandomCropPad",
            "SSDRandomCropPadOperation",
            "SSDRandomCropFixedAspectRatio",
            "SSDRandomCropFixedAspectRatioOperation",
            "SSDRandomCropPadFixedAspectRatio",
            "SSDRandomCropPadFixedAspectRatioOperation",
        ),
        _padded,
    ),
}
