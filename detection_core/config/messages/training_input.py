"""Input readers, augmentations of training images, and the sizes of multi-scale training."""

from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.config.messages.registered import registered_problems
from detection_core.detectors.rules import Check
from detection_core.errors import Problem
from detection_core.protos import preprocessor_pb2 as pb
from detection_core.protos.input_reader_pb2 import InputReader
from detection_core.protos.train_pb2 import TrainConfig


def _reader(reader: InputReader, path: str) -> Iterator[Problem]:
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
        yield Problem(path=path, message="expected one augmentation, found none; name one or remove this")
    if arm == "registered":
        yield from registered_problems("augmentation", message.registered, f"{path}.{arm}")


def _pad(message: pb.RandomPadImage, path: str) -> Iterator[Problem]:
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


def _policy(message: pb.AutoAugmentImage, path: str) -> Iterator[Problem]:
    if message.policy_name not in POLICIES:
        text = f"expected one of {', '.join(POLICIES)}, found {message.policy_name[:60]!r}"
        yield Problem(path=f"{path}.policy_name", message=text)


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


CHECKS: Mapping[str, Check] = {
    "InputReader": _reader,
    "PreprocessingStep": _step,
    "AutoAugmentImage": _policy,
    "RandomDownscaleToTargetPixels": _downscale,
    "RandomPadImage": _pad,
}
