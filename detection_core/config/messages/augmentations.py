"""Augmentations of training images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from detection_core.config.problems import Problem
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

POLICIES = {"v0": True, "v1": True, "v2": False, "v3": False, "test": False}
"""Learned policies, and whether they move what is inside boxes to where keypoints cannot follow."""
_CROPS = {
    "random_crop_image": False,
    "random_crop_pad_image": False,
    "ssd_random_crop": True,
    "ssd_random_crop_pad": True,
    "ssd_random_crop_fixed_aspect_ratio": True,
    "ssd_random_crop_pad_fixed_aspect_ratio": True,
}
"""Steps that crop, and whether their `operations` do so rather than the step itself."""

Found = Iterator[tuple[str, str]]
"""Field below the step, and what is wrong with it."""


def augmentation_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find steps that are missing, contradict themselves, or need what is not read."""
    for i, message in enumerate(config.train_config.data_augmentation_options):
        path = f"train_config.data_augmentation_options[{i}]"
        arm = message.WhichOneof("preprocessing_step")
        if arm is None:
            text = "expected one augmentation, found none; name one or remove this"
            yield Problem(path=path, message=text)
            continue
        step = getattr(message, arm)
        found = [*_CHECKS.get(arm, _nothing)(step), *_padded(step), *_crops(arm, step)]
        found += _what_is_read(config, arm, step)
        for field, text in found:
            yield Problem(path=f"{path}.{arm}{field}", message=text)


def _nothing(step: Any) -> Found:
    yield from ()


def _crops(arm: str, step: Any) -> Found:
    if arm not in _CROPS:
        return
    for i, crop in enumerate(step.operations) if _CROPS[arm] else [(-1, step)]:
        place = f".operations[{i}]" if i >= 0 else ""
        if not crop.min_area > 0:
            yield f"{place}.min_area", f"expected a number above 0, found {crop.min_area:g}"
        if not getattr(crop, "min_aspect_ratio", 1.0) > 0:
            yield f"{place}.min_aspect_ratio", "expected a number above 0, found 0"


def _padded(step: Any) -> Found:
    """Sizes and colours that are given by two and three values."""
    fields = step.DESCRIPTOR.fields_by_name
    operations = getattr(step, "operations", ()) if "operations" in fields else ()
    for place, message in [("", step), *((f".operations[{i}]", o) for i, o in enumerate(operations))]:
        names = message.DESCRIPTOR.fields_by_name
        for name in ("min_padded_size_ratio", "max_padded_size_ratio"):
            count = len(getattr(message, name)) if name in names else 0
            if count not in (0, 2):
                yield f"{place}.{name}", f"expected 2 values (rows, columns) or none, found {count}"
        colours = len(message.pad_color) if "pad_color" in names else 0
        if colours not in (0, 3):
            yield f"{place}.pad_color", f"expected 3 values or none, found {colours}; give R, G and B"


def _pad(step: Any) -> Found:
    for bound in ("min", "max"):
        height, width = f"{bound}_image_height", f"{bound}_image_width"
        if step.HasField(height) != step.HasField(width):
            yield f".{height}", f"expected {height} and {width} together, found one alone; set both or none"


def _downscale(step: Any) -> Found:
    if not step.min_target_pixels > 0:
        yield ".min_target_pixels", f"expected a number above 0, found {step.min_target_pixels}"
    most = step.max_target_pixels if step.HasField("max_target_pixels") else 800_000
    if step.min_target_pixels > most:
        text = f"expected at most max_target_pixels, which is {most:,}, found {step.min_target_pixels:,}"
        yield ".min_target_pixels", text


def _distort(step: Any) -> Found:
    if step.color_ordering not in (0, 1):
        yield ".color_ordering", f"expected 0 or 1, found {step.color_ordering}"


def _normalize(step: Any) -> Found:
    if step.original_minval == step.original_maxval:
        yield ".original_maxval", f"expected another number than original_minval, {step.original_minval:g}"


def _softmax(step: Any) -> Found:
    if step.temperature == 0.0:
        yield ".temperature", "expected another number than 0, which logits are divided by"


def _policy(step: Any) -> Found:
    if step.policy_name not in POLICIES:
        yield ".policy_name", f"expected one of {', '.join(POLICIES)}, found {step.policy_name[:60]!r}"


def _means(step: Any) -> Found:
    if len(step.means) != 3:
        yield ".means", f"expected 3 means, found {len(step.means)}; give R, G and B"


def _resize(step: Any) -> Found:
    for name in ("new_height", "new_width", "target_height", "target_width"):
        if name in step.DESCRIPTOR.fields_by_name and getattr(step, name) < 1:
            yield f".{name}", f"expected 1 or more pixels, found {getattr(step, name)}"


_CHECKS: dict[str, Callable[[Any], Found]] = {
    "autoaugment_image": _policy,
    "convert_class_logits_to_softmax": _softmax,
    "normalize_image": _normalize,
    "random_distort_color": _distort,
    "random_downscale_to_target_pixels": _downscale,
    "random_pad_image": _pad,
    "random_resize_method": _resize,
    "resize_image": _resize,
    "subtract_channel_mean": _means,
}

_PERMUTATIONS = {
    "random_horizontal_flip": "keypoint_flip_permutation",
    "random_vertical_flip": "keypoint_flip_permutation",
    "random_rotation90": "keypoint_rot_permutation",
}


def _what_is_read(config: TrainEvalPipelineConfig, arm: str, step: Any) -> Found:
    reader = config.train_input_reader
    if arm == "convert_class_logits_to_softmax" and not reader.load_multiclass_scores:
        text = "expected scores to convert, found none; set train_input_reader.load_multiclass_scores: true"
        yield "", text
    if arm == "rgb_to_gray":
        text = (
            "expected three channels, as every extractor here takes, found a step that leaves one; use"
            " random_rgb_to_gray { probability: 1 }, which keeps three equal ones"
        )
        yield "", text
    if reader.num_keypoints:
        yield from _keypoints(reader.num_keypoints, arm, step)


def _keypoints(count: int, arm: str, step: Any) -> Found:
    name = _PERMUTATIONS.get(arm, "")
    permutation = list(getattr(step, name, []))
    # A turn changes no left keypoint into a right one, so that it may go without.
    optional = arm == "random_rotation90" and not permutation
    if name and not optional and sorted(permutation) != list(range(count)):
        text = (
            f"expected each of 0 to {count - 1} once, as train_input_reader.num_keypoints is {count}, found"
            f" {permutation[:20] or 'none'}; tell which keypoint each becomes"
        )
        yield f".{name}", text
    if arm == "autoaugment_image" and POLICIES.get(step.policy_name):
        kept = [policy for policy, moves in POLICIES.items() if not moves]
        text = (
            f"expected {' or '.join(kept)} beside keypoints, found {step.policy_name}, which moves what is"
            " inside boxes to where keypoints cannot follow; use one of them"
        )
        yield ".policy_name", text
