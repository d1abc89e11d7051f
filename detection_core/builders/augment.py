"""Preprocessing steps of train_config.data_augmentation_options to augmentations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from detection_core.augment import colour, crops, geometry
from detection_core.augment.steps import Augmentation, Augmentations
from detection_core.builders.oneof import build_oneof
from detection_core.errors import ConfigError
from detection_core.protos import preprocessor_pb2


def _same_fields(step: Callable[..., Augmentation]) -> Callable[[Any], Augmentation]:
    """Return a builder for a step whose options carry the names and defaults of the message's fields."""

    def build(message: Any) -> Augmentation:
        fields = {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}
        return step(**{name: _plain(value) for name, value in fields.items()})

    return build


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else tuple(value)


def _probability(step: Callable[..., Augmentation]) -> Callable[[Any], Augmentation]:
    """Return a builder for a flip or turn; its keypoint permutation has nothing to act on."""
    return lambda message: step(probability=message.probability)


def _crop_ranges(message: Any) -> dict[str, Any]:
    return {
        "min_object_covered": message.min_object_covered,
        "aspect_ratio_range": (message.min_aspect_ratio, message.max_aspect_ratio),
        "area_range": (message.min_area, message.max_area),
        "overlap_thresh": message.overlap_thresh,
        "clip_boxes": message.clip_boxes,
        "random_coef": message.random_coef,
    }


def _crop(message: Any) -> crops.RandomCropImage:
    return crops.RandomCropImage(**_crop_ranges(message))


def _ssd_crop(message: preprocessor_pb2.SSDRandomCrop) -> Augmentation:
    chosen = tuple(_crop(operation) for operation in message.operations)
    return crops.OneOfCrops(crops=chosen or crops.ssd_crops())


PREPROCESSING_STEPS: dict[str, Callable[[Any], Augmentation]] = {
    "normalize_image": _same_fields(colour.NormalizeImage),
    "random_horizontal_flip": _probability(geometry.RandomHorizontalFlip),
    "random_pixel_value_scale": _same_fields(colour.RandomPixelValueScale),
    "random_rgb_to_gray": _same_fields(colour.RandomRGBtoGray),
    "random_adjust_brightness": _same_fields(colour.RandomAdjustBrightness),
    "random_adjust_contrast": _same_fields(colour.RandomAdjustContrast),
    "random_adjust_hue": _same_fields(colour.RandomAdjustHue),
    "random_adjust_saturation": _same_fields(colour.RandomAdjustSaturation),
    "random_distort_color": _same_fields(colour.RandomDistortColor),
    "random_crop_image": _crop,
    "random_crop_to_aspect_ratio": _same_fields(crops.RandomCropToAspectRatio),
    "subtract_channel_mean": _same_fields(colour.SubtractChannelMean),
    "ssd_random_crop": _ssd_crop,
    "random_vertical_flip": _probability(geometry.RandomVerticalFlip),
    "random_rotation90": _probability(geometry.RandomRotation90),
    "rgb_to_gray": _same_fields(colour.RGBtoGray),
    "random_self_concat_image": _same_fields(geometry.RandomSelfConcatImage),
    "adjust_gamma": _same_fields(colour.AdjustGamma),
}

UNSUPPORTED: dict[str, str] = {}


def build_augmentation(
    message: preprocessor_pb2.PreprocessingStep, where: str = "data_augmentation_options"
) -> Augmentation:
    """Build the step that a message describes.

    Args:
        message: the message.
        where: its path in the configuration, for errors.

    Raises:
        ConfigError: when no step is set, it is not supported, or its values contradict each other.
    """
    try:
        return build_oneof(message, "preprocessing_step", PREPROCESSING_STEPS, where, UNSUPPORTED)
    except ValueError as error:
        raise ConfigError(f"{error}; correct it", where=where) from error


def build_augmentations(
    messages: Sequence[preprocessor_pb2.PreprocessingStep],
    where: str = "train_config.data_augmentation_options",
) -> Augmentations:
    """Build all steps, to be applied in the order of the configuration.

    Raises:
        ConfigError: see `build_augmentation`.
    """
    return Augmentations(
        steps=tuple(build_augmentation(message, f"{where}[{i}]") for i, message in enumerate(messages))
    )
