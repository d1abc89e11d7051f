"""What becomes of the fields of the preprocessing steps."""

from __future__ import annotations

from collections.abc import Mapping

from detection_core.config.support.entry import Support

_CROP = Support("builders.augment")

PREPROCESSING_SUPPORT: Mapping[str, Support] = {
    "PreprocessingStep": Support("builders.augment"),
    "AdjustGamma": Support("augment.colour"),
    "AutoAugmentImage": Support("augment.policies"),
    "ConvertClassLogitsToSoftmax": Support("augment.objects"),
    "DropLabelProbabilistically": Support("augment.objects"),
    "NormalizeImage": Support("augment.colour"),
    "RGBtoGray": Support(),
    "RandomAbsolutePadImage": Support("builders.augment"),
    "RandomAdjustBrightness": Support("augment.colour"),
    "RandomAdjustContrast": Support("augment.colour"),
    "RandomAdjustHue": Support("augment.colour"),
    "RandomAdjustSaturation": Support("augment.colour"),
    "RandomBlackPatches": Support("augment.noise"),
    "RandomCropImage": _CROP,
    "RandomCropPadImage": _CROP,
    "RandomCropToAspectRatio": Support("augment.crops"),
    "RandomDistortColor": Support("augment.colour"),
    "RandomDownscaleToTargetPixels": Support("builders.augment"),
    "RandomHorizontalFlip": Support("augment.geometry"),
    "RandomImageScale": Support("augment.scaling"),
    "RandomJitterBoxes": Support("builders.augment"),
    "RandomJpegQuality": Support("augment.noise"),
    "RandomPadImage": Support("builders.augment"),
    "RandomPatchGaussian": Support("augment.noise"),
    "RandomPixelValueScale": Support("augment.colour"),
    "RandomRGBtoGray": Support("augment.colour"),
    "RandomResizeMethod": Support("augment.scaling"),
    "RandomRotation90": Support("augment.geometry"),
    "RandomScaleCropAndPadToSquare": Support("augment.squares"),
    "RandomSelfConcatImage": Support("augment.geometry"),
    "RandomSquareCropByScale": Support("augment.squares"),
    "RandomVerticalFlip": Support("augment.geometry"),
    "RemapLabels": Support("augment.objects"),
    "ResizeImage": Support("builders.augment"),
    "SSDRandomCrop": _CROP,
    "SSDRandomCropOperation": _CROP,
    "SSDRandomCropPad": _CROP,
    "SSDRandomCropPadOperation": _CROP,
    "SSDRandomCropFixedAspectRatio": _CROP,
    "SSDRandomCropFixedAspectRatioOperation": _CROP,
    "SSDRandomCropPadFixedAspectRatio": _CROP,
    "SSDRandomCropPadFixedAspectRatioOperation": _CROP,
    "ScaleBoxesToPixelCoordinates": Support(),
    "SubtractChannelMean": Support("builders.augment"),
}
