"""Build augmentations from train_config.data_augmentation_options."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from detection_core.augment import (
    boxes_and_labels,
    colour,
    crops,
    geometry,
    mixing,
    noise,
    pads,
    patches,
    policies,
    scaling,
)
from detection_core.augment.augmentation import Augmentation, Augmentations, OneOf
from detection_core.augment.mixing import MixedAugmentations, Mixing
from detection_core.builders.oneof import build_oneof
from detection_core.config.messages.augmentations import UNSET_MAX_TARGET_PIXELS
from detection_core.config.messages.registered import build_registered
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.config.text.text_proto import format_message
from detection_core.protos import preprocessor_pb2 as pb
from detection_core.protos.recipe_pb2 import Mosaic

_Step = TypeVar("_Step", Augmentation, Mixing)
_Crop = (
    pb.RandomCropImage
    | pb.RandomCropPadImage
    | pb.SSDRandomCropOperation
    | pb.SSDRandomCropPadOperation
    | pb.SSDRandomCropFixedAspectRatioOperation
    | pb.SSDRandomCropPadFixedAspectRatioOperation
)
_Padded = pb.RandomCropPadImage | pb.SSDRandomCropPadOperation | pb.SSDRandomCropPadFixedAspectRatio


def _same_fields(step: Callable[..., _Step]) -> Callable[[Any], _Step]:
    """Return a builder for a step whose options have the names and defaults of the message's fields."""

    def build(message: Message) -> _Step:
        fields = {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}
        return step(**{name: _plain(value) for name, value in fields.items()})

    return build


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else tuple(value)


def _crop(message: _Crop, **changed: Any) -> crops.RandomCropImage:
    """Build a crop from any message with a crop's fields; `changed` overrides the message."""
    ranges = {
        "aspect_ratio_range": ("min_aspect_ratio", "max_aspect_ratio"),
        "area_range": ("min_area", "max_area"),
    }
    fields = {name: (getattr(message, low), getattr(message, high)) for name, (low, high) in ranges.items()
              if name not in changed}  # fmt: skip
    return crops.RandomCropImage(
        min_object_covered=message.min_object_covered,
        overlap_thresh=message.overlap_thresh,
        clip_boxes=message.clip_boxes,
        random_coef=message.random_coef,
        **fields,
        **changed,
    )


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
    found = {}
    for name in ("min_padded_size_ratio", "max_padded_size_ratio"):
        values = tuple(getattr(message, name))
        found.update({name: values} if values else {})
    return found


def _colour(message: pb.RandomCropPadImage | pb.RandomPadImage | pb.RandomAbsolutePadImage) -> Any:
    """Read R, G and B; () where unset."""
    return tuple(message.pad_color)


def _crop_pad(message: pb.RandomCropPadImage) -> Augmentation:
    return pads.RandomCropPadImage(crop=_crop(message), pad_color=_colour(message), **_padded_sizes(message))


def _canvas_size(message: pb.RandomPadImage, bound: str) -> Any:
    height, width = (f"{bound}_image_{side}" for side in ("height", "width"))
    return (getattr(message, height), getattr(message, width)) if message.HasField(height) else ()


def _pad(message: pb.RandomPadImage) -> Augmentation:
    return pads.RandomPadImage(
        min_image_size=_canvas_size(message, "min"),
        max_image_size=_canvas_size(message, "max"),
        pad_color=_colour(message),
    )


def _absolute_pad(message: pb.RandomAbsolutePadImage) -> Augmentation:
    # Unset and zero mean one pixel, unlike the schema's default of zero.
    return pads.RandomAbsolutePadImage(
        max_height_padding=message.max_height_padding or 1,
        max_width_padding=message.max_width_padding or 1,
        pad_color=_colour(message),
    )


def _downscale(message: pb.RandomDownscaleToTargetPixels) -> Augmentation:
    unset = not message.HasField("max_target_pixels")
    return scaling.RandomDownscaleToTargetPixels(
        min_target_pixels=message.min_target_pixels,
        max_target_pixels=UNSET_MAX_TARGET_PIXELS if unset else message.max_target_pixels,
        random_coef=message.random_coef,
    )


def _jitter(message: pb.RandomJitterBoxes) -> Augmentation:
    mode: Any = pb.RandomJitterBoxes.JitterMode.Name(message.jitter_mode)
    return boxes_and_labels.RandomJitterBoxes(ratio=message.ratio, jitter_mode=mode)


def _resize(message: pb.ResizeImage) -> Augmentation:
    method: Any = pb.ResizeImage.Method.Name(message.method)
    return scaling.ResizeImage(new_height=message.new_height, new_width=message.new_width, method=method)


def _channel_mean(message: pb.SubtractChannelMean) -> Augmentation:
    return colour.SubtractChannelMean(means=tuple(message.means))


def _mosaic(message: Mosaic) -> Mixing:
    fit: Any = Mosaic.Fit.Name(message.fit)
    return mixing.Mosaic(
        probability=message.probability,
        height=message.height,
        width=message.width,
        min_fraction=message.min_fraction,
        fit=fit,
        min_visible=message.min_visible,
        per_channel_pad_value=tuple(message.per_channel_pad_value),
    )


PREPROCESSING_STEPS: dict[str, Callable[[Any], Augmentation | Mixing]] = {
    "normalize_image": _same_fields(colour.NormalizeImage),
    "random_horizontal_flip": _same_fields(geometry.RandomHorizontalFlip),
    "random_pixel_value_scale": _same_fields(colour.RandomPixelValueScale),
    "random_image_scale": _same_fields(scaling.RandomImageScale),
    "random_rgb_to_gray": _same_fields(colour.RandomRGBtoGray),
    "random_adjust_brightness": _same_fields(colour.RandomAdjustBrightness),
    "random_adjust_contrast": _same_fields(colour.RandomAdjustContrast),
    "random_adjust_hue": _same_fields(colour.RandomAdjustHue),
    "random_adjust_saturation": _same_fields(colour.RandomAdjustSaturation),
    "random_distort_color": _same_fields(colour.RandomDistortColor),
    "random_jitter_boxes": _jitter,
    "random_crop_image": _crop,
    "random_pad_image": _pad,
    "random_crop_pad_image": _crop_pad,
    "random_crop_to_aspect_ratio": _same_fields(crops.RandomCropToAspectRatio),
    "random_black_patches": _same_fields(noise.RandomBlackPatches),
    "random_resize_method": _same_fields(scaling.RandomResizeMethod),
    "scale_boxes_to_pixel_coordinates": _same_fields(boxes_and_labels.ScaleBoxesToPixelCoordinates),
    "resize_image": _resize,
    "subtract_channel_mean": _channel_mean,
    "ssd_random_crop": _ssd_crop,
    "ssd_random_crop_pad": _ssd_crop_pad,
    "ssd_random_crop_fixed_aspect_ratio": _ssd_crop_fixed_aspect_ratio,
    "ssd_random_crop_pad_fixed_aspect_ratio": _ssd_crop_pad_fixed_aspect_ratio,
    "random_vertical_flip": _same_fields(geometry.RandomVerticalFlip),
    "random_rotation90": _same_fields(geometry.RandomRotation90),
    "rgb_to_gray": _same_fields(colour.RGBtoGray),
    "random_absolute_pad_image": _absolute_pad,
    "random_self_concat_image": _same_fields(geometry.RandomSelfConcatImage),
    "drop_label_probabilistically": _same_fields(boxes_and_labels.DropLabelProbabilistically),
    "remap_labels": _same_fields(boxes_and_labels.RemapLabels),
    "random_jpeg_quality": _same_fields(noise.RandomJpegQuality),
    "random_downscale_to_target_pixels": _downscale,
    "random_patch_gaussian": _same_fields(noise.RandomPatchGaussian),
    "random_square_crop_by_scale": _same_fields(pads.RandomSquareCropByScale),
    "random_scale_crop_and_pad_to_square": _same_fields(pads.RandomScaleCropAndPadToSquare),
    "adjust_gamma": _same_fields(colour.AdjustGamma),
    "autoaugment_image": _same_fields(policies.AutoAugmentImage),
    "convert_class_logits_to_softmax": _same_fields(boxes_and_labels.ConvertClassLogitsToSoftmax),
    "automl_scale_jitter": _same_fields(scaling.ScaleJitter),
    "automl_grid_mask": _same_fields(patches.GridMask),
    "drop_crowd_boxes": _same_fields(boxes_and_labels.DropCrowdBoxes),
    "mosaic": _mosaic,
    "mixup": _same_fields(mixing.MixUp),
    "copy_paste": _same_fields(mixing.CopyPaste),
    "large_scale_jitter": _same_fields(scaling.LargeScaleJitter),
    "registered": lambda message: build_registered("augmentation", message),
}


def build_augmentation(message: pb.PreprocessingStep) -> Augmentation | Mixing:
    """Build the step of a checked message."""
    return build_oneof(message, "preprocessing_step", PREPROCESSING_STEPS)


def describe_augmentations(config: CheckedConfig) -> list[str]:
    """Return the augmentations of a config in order, each as its message's text on one line."""
    return [format_message(m, one_line=True) for m in config.train_config.data_augmentation_options]


def build_augmentations(messages: Sequence[pb.PreprocessingStep]) -> Augmentations | MixedAugmentations:
    """Build all steps in the order of the configuration."""
    steps = tuple(map(build_augmentation, messages))
    plain = tuple(step for step in steps if not isinstance(step, Mixing))
    return Augmentations(augmentations=plain) if plain == steps else MixedAugmentations(steps=steps)
