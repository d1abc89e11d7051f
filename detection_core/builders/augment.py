"""Build augmentations from train_config.data_augmentation_options."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from detection_core.augment import (
    boxes_and_labels,
    colour,
    crops,
    geometry,
    mixing,
    pads,
    patches,
    policies,
    scaling,
)
from detection_core.augment.augmentation import Augmentation, Augmentations, OneOf, RandomApply
from detection_core.augment.mixing import MixedAugmentations, Mixing
from detection_core.builders.oneof import from_fields, oneof_builder, same_fields
from detection_core.config.messages.registered import build_registered
from detection_core.config.messages.training_input import UNSET_MAX_TARGET_PIXELS
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.config.text.text_proto import format_message
from detection_core.protos import preprocessor_pb2 as pb

_Crop = (
    pb.RandomCropImage
    | pb.RandomCropPadImage
    | pb.SSDRandomCropOperation
    | pb.SSDRandomCropPadOperation
    | pb.SSDRandomCropFixedAspectRatioOperation
    | pb.SSDRandomCropPadFixedAspectRatioOperation
)
_Padded = pb.RandomCropPadImage | pb.SSDRandomCropPadOperation | pb.SSDRandomCropPadFixedAspectRatio


def _crop(message: _Crop, **changed: Any) -> crops.RandomCropImage:
    """Build a crop from any message with a crop's fields; `changed` overrides the message."""
    ranges = {
        "aspect_ratio_range": ("min_aspect_ratio", "max_aspect_ratio"),
        "area_range": ("min_area", "max_area"),
    }
    fields = {name: (getattr(message, low), getattr(message, high)) for name, (low, high) in ranges.items()
              if name not in changed}  # fmt: skip
    return from_fields(crops.RandomCropImage, message, **fields, **changed)


def _ssd_crop(message: pb.SSDRandomCrop) -> Augmentation:
    chosen = tuple(_crop(operation) for operation in message.operations)
    return crops.OneOfCrops(crops=chosen or crops.ssd_crops())


def _ssd_crop_fixed_aspect_ratio(message: pb.SSDRandomCropFixedAspectRatio) -> Augmentation:
    ratios = (message.aspect_ratio, message.aspect_ratio)
    chosen = tuple(_crop(operation, aspect_ratio_range=ratios) for operation in message.operations)
    defaults = (dataclasses.replace(crop, aspect_ratio_range=ratios) for crop in crops.ssd_crops())
    crop = crops.OneOfCrops(crops=chosen or tuple(defaults))
    return Augmentations(
        augmentations=(crop, crops.RandomCropToAspectRatio(aspect_ratio=message.aspect_ratio))
    )


def _ssd_crop_pad(message: pb.SSDRandomCropPad) -> Augmentation:
    chosen = tuple(
        pads.RandomCropPadImage(
            crop=_crop(operation),
            pad_color=(operation.pad_color_r, operation.pad_color_g, operation.pad_color_b),
            **_padded_sizes(operation),
        )
        for operation in message.operations
    )
    # Unlike SSD's plain crop, this one always keeps part of an object.
    defaults = (pads.RandomCropPadImage(crop=crop) for crop in crops.ssd_crops()[1:])
    return OneOf(augmentations=chosen or tuple(defaults))


def _ssd_crop_pad_fixed_aspect_ratio(message: pb.SSDRandomCropPadFixedAspectRatio) -> Augmentation:
    chosen = tuple(_crop(operation) for operation in message.operations)
    crop = crops.OneOfCrops(crops=chosen or crops.ssd_crops())
    pad = pads.RandomPadToAspectRatio(aspect_ratio=message.aspect_ratio, **_padded_sizes(message))
    return Augmentations(augmentations=(crop, pad))


def _padded_sizes(message: _Padded) -> dict[str, Any]:
    """Read the size limits of a padded image, as fractions of its rows and columns; unset: no option."""
    names = ("min_padded_size_ratio", "max_padded_size_ratio")
    return {name: tuple(values) for name in names if (values := getattr(message, name))}


def _canvas_size(message: pb.RandomPadImage, bound: str) -> Any:
    height, width = (f"{bound}_image_{side}" for side in ("height", "width"))
    return (getattr(message, height), getattr(message, width)) if message.HasField(height) else ()


def _pad(message: pb.RandomPadImage) -> Augmentation:
    sizes = {f"{bound}_image_size": _canvas_size(message, bound) for bound in ("min", "max")}
    return from_fields(pads.RandomPadImage, message, **sizes)


def _absolute_pad(message: pb.RandomAbsolutePadImage) -> Augmentation:
    # Unset and zero mean one pixel, unlike the schema's default of zero.
    return from_fields(
        pads.RandomAbsolutePadImage,
        message,
        max_height_padding=message.max_height_padding or 1,
        max_width_padding=message.max_width_padding or 1,
    )


def _downscale(message: pb.RandomDownscaleToTargetPixels) -> Augmentation:
    unset = {} if message.HasField("max_target_pixels") else {"max_target_pixels": UNSET_MAX_TARGET_PIXELS}
    return from_fields(scaling.RandomDownscaleToTargetPixels, message, **unset)


def _random_flip(axis: int) -> Callable[[Any], Augmentation]:
    def build(message: Any) -> Augmentation:
        permutation = tuple(message.keypoint_flip_permutation)
        flip = functools.partial(geometry.flip, axis=axis, permutation=permutation)
        return RandomApply(change=flip, probability=message.probability)

    return build


def _random_rotation90(message: pb.RandomRotation90) -> Augmentation:
    rotate = functools.partial(geometry.rotate90, permutation=tuple(message.keypoint_rot_permutation))
    return RandomApply(change=rotate, probability=message.probability)


def _random_adjust(adjust: colour.Adjustment) -> Callable[[Any], Augmentation]:
    """Return the builder of a random adjustment; without `min_delta` the amounts are symmetric about 0."""

    def build(message: Any) -> Augmentation:
        low = getattr(message, "min_delta", -message.max_delta)
        return colour.RandomAdjust(adjust=adjust, min_delta=low, max_delta=message.max_delta)

    return build


PREPROCESSING_STEPS: dict[str, Callable[[Any], Augmentation | Mixing]] = {
    "normalize_image": same_fields(colour.NormalizeImage),
    "random_horizontal_flip": _random_flip(geometry.HORIZONTAL),
    "random_pixel_value_scale": same_fields(colour.RandomPixelValueScale),
    "random_image_scale": same_fields(scaling.RandomImageScale),
    "random_rgb_to_gray": same_fields(colour.RandomRGBtoGray),
    "random_adjust_brightness": _random_adjust(colour.adjust_brightness),
    "random_adjust_contrast": _random_adjust(colour.adjust_contrast),
    "random_adjust_hue": _random_adjust(colour.adjust_hue),
    "random_adjust_saturation": _random_adjust(colour.adjust_saturation),
    "random_distort_color": same_fields(colour.RandomDistortColor),
    "random_jitter_boxes": same_fields(boxes_and_labels.RandomJitterBoxes),
    "random_crop_image": _crop,
    "random_pad_image": _pad,
    "random_crop_pad_image": lambda message: pads.RandomCropPadImage(
        crop=_crop(message), pad_color=tuple(message.pad_color), **_padded_sizes(message)
    ),
    "random_crop_to_aspect_ratio": same_fields(crops.RandomCropToAspectRatio),
    "random_black_patches": same_fields(patches.RandomBlackPatches),
    "random_resize_method": same_fields(scaling.RandomResizeMethod),
    "scale_boxes_to_pixel_coordinates": same_fields(boxes_and_labels.ScaleBoxesToPixelCoordinates),
    "resize_image": same_fields(scaling.ResizeImage),
    "subtract_channel_mean": same_fields(colour.SubtractChannelMean),
    "ssd_random_crop": _ssd_crop,
    "ssd_random_crop_pad": _ssd_crop_pad,
    "ssd_random_crop_fixed_aspect_ratio": _ssd_crop_fixed_aspect_ratio,
    "ssd_random_crop_pad_fixed_aspect_ratio": _ssd_crop_pad_fixed_aspect_ratio,
    "random_vertical_flip": _random_flip(geometry.VERTICAL),
    "random_rotation90": _random_rotation90,
    "rgb_to_gray": same_fields(colour.RGBtoGray),
    "random_absolute_pad_image": _absolute_pad,
    "random_self_concat_image": same_fields(geometry.RandomSelfConcatImage),
    "drop_label_probabilistically": same_fields(boxes_and_labels.DropLabelProbabilistically),
    "remap_labels": same_fields(boxes_and_labels.RemapLabels),
    "random_jpeg_quality": same_fields(patches.RandomJpegQuality),
    "random_downscale_to_target_pixels": _downscale,
    "random_patch_gaussian": same_fields(patches.RandomPatchGaussian),
    "random_square_crop_by_scale": same_fields(pads.RandomSquareCropByScale),
    "random_scale_crop_and_pad_to_square": same_fields(pads.RandomScaleCropAndPadToSquare),
    "adjust_gamma": same_fields(colour.AdjustGamma),
    "autoaugment_image": same_fields(policies.AutoAugmentImage),
    "convert_class_logits_to_softmax": same_fields(boxes_and_labels.ConvertClassLogitsToSoftmax),
    "automl_scale_jitter": same_fields(scaling.ScaleJitter),
    "automl_grid_mask": same_fields(patches.GridMask),
    "drop_crowd_boxes": same_fields(boxes_and_labels.DropCrowdBoxes),
    "mosaic": same_fields(mixing.Mosaic),
    "mixup": same_fields(mixing.MixUp),
    "copy_paste": same_fields(mixing.CopyPaste),
    "large_scale_jitter": same_fields(scaling.LargeScaleJitter),
    "registered": lambda message: build_registered("augmentation", message),
}
build_augmentation = oneof_builder("preprocessing_step", PREPROCESSING_STEPS)


def describe_augmentations(config: CheckedConfig) -> list[str]:
    """Return the augmentations of a config in order, each as its message's text on one line."""
    return [format_message(m, one_line=True) for m in config.train_config.data_augmentation_options]


def build_augmentations(messages: Sequence[pb.PreprocessingStep]) -> Augmentations | MixedAugmentations:
    """Build all steps in the order of the configuration."""
    steps = tuple(map(build_augmentation, messages))
    plain = tuple(step for step in steps if not isinstance(step, Mixing))
    return Augmentations(augmentations=plain) if plain == steps else MixedAugmentations(steps=steps)
