from detection_core.protos import automl_input_pb2 as _automl_input_pb2
from detection_core.protos import recipe_pb2 as _recipe_pb2
from detection_core.protos import registered_pb2 as _registered_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PreprocessingStep(_message.Message):
    __slots__ = ("normalize_image", "random_horizontal_flip", "random_pixel_value_scale", "random_image_scale", "random_rgb_to_gray", "random_adjust_brightness", "random_adjust_contrast", "random_adjust_hue", "random_adjust_saturation", "random_distort_color", "random_jitter_boxes", "random_crop_image", "random_pad_image", "random_crop_pad_image", "random_crop_to_aspect_ratio", "random_black_patches", "random_resize_method", "scale_boxes_to_pixel_coordinates", "resize_image", "subtract_channel_mean", "ssd_random_crop", "ssd_random_crop_pad", "ssd_random_crop_fixed_aspect_ratio", "ssd_random_crop_pad_fixed_aspect_ratio", "random_vertical_flip", "random_rotation90", "rgb_to_gray", "convert_class_logits_to_softmax", "random_absolute_pad_image", "random_self_concat_image", "autoaugment_image", "drop_label_probabilistically", "remap_labels", "random_jpeg_quality", "random_downscale_to_target_pixels", "random_patch_gaussian", "random_square_crop_by_scale", "random_scale_crop_and_pad_to_square", "adjust_gamma", "registered", "automl_scale_jitter", "automl_grid_mask", "drop_crowd_boxes", "mosaic", "mixup", "copy_paste", "large_scale_jitter")
    NORMALIZE_IMAGE_FIELD_NUMBER: _ClassVar[int]
    RANDOM_HORIZONTAL_FLIP_FIELD_NUMBER: _ClassVar[int]
    RANDOM_PIXEL_VALUE_SCALE_FIELD_NUMBER: _ClassVar[int]
    RANDOM_IMAGE_SCALE_FIELD_NUMBER: _ClassVar[int]
    RANDOM_RGB_TO_GRAY_FIELD_NUMBER: _ClassVar[int]
    RANDOM_ADJUST_BRIGHTNESS_FIELD_NUMBER: _ClassVar[int]
    RANDOM_ADJUST_CONTRAST_FIELD_NUMBER: _ClassVar[int]
    RANDOM_ADJUST_HUE_FIELD_NUMBER: _ClassVar[int]
    RANDOM_ADJUST_SATURATION_FIELD_NUMBER: _ClassVar[int]
    RANDOM_DISTORT_COLOR_FIELD_NUMBER: _ClassVar[int]
    RANDOM_JITTER_BOXES_FIELD_NUMBER: _ClassVar[int]
    RANDOM_CROP_IMAGE_FIELD_NUMBER: _ClassVar[int]
    RANDOM_PAD_IMAGE_FIELD_NUMBER: _ClassVar[int]
    RANDOM_CROP_PAD_IMAGE_FIELD_NUMBER: _ClassVar[int]
    RANDOM_CROP_TO_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    RANDOM_BLACK_PATCHES_FIELD_NUMBER: _ClassVar[int]
    RANDOM_RESIZE_METHOD_FIELD_NUMBER: _ClassVar[int]
    SCALE_BOXES_TO_PIXEL_COORDINATES_FIELD_NUMBER: _ClassVar[int]
    RESIZE_IMAGE_FIELD_NUMBER: _ClassVar[int]
    SUBTRACT_CHANNEL_MEAN_FIELD_NUMBER: _ClassVar[int]
    SSD_RANDOM_CROP_FIELD_NUMBER: _ClassVar[int]
    SSD_RANDOM_CROP_PAD_FIELD_NUMBER: _ClassVar[int]
    SSD_RANDOM_CROP_FIXED_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    SSD_RANDOM_CROP_PAD_FIXED_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    RANDOM_VERTICAL_FLIP_FIELD_NUMBER: _ClassVar[int]
    RANDOM_ROTATION90_FIELD_NUMBER: _ClassVar[int]
    RGB_TO_GRAY_FIELD_NUMBER: _ClassVar[int]
    CONVERT_CLASS_LOGITS_TO_SOFTMAX_FIELD_NUMBER: _ClassVar[int]
    RANDOM_ABSOLUTE_PAD_IMAGE_FIELD_NUMBER: _ClassVar[int]
    RANDOM_SELF_CONCAT_IMAGE_FIELD_NUMBER: _ClassVar[int]
    AUTOAUGMENT_IMAGE_FIELD_NUMBER: _ClassVar[int]
    DROP_LABEL_PROBABILISTICALLY_FIELD_NUMBER: _ClassVar[int]
    REMAP_LABELS_FIELD_NUMBER: _ClassVar[int]
    RANDOM_JPEG_QUALITY_FIELD_NUMBER: _ClassVar[int]
    RANDOM_DOWNSCALE_TO_TARGET_PIXELS_FIELD_NUMBER: _ClassVar[int]
    RANDOM_PATCH_GAUSSIAN_FIELD_NUMBER: _ClassVar[int]
    RANDOM_SQUARE_CROP_BY_SCALE_FIELD_NUMBER: _ClassVar[int]
    RANDOM_SCALE_CROP_AND_PAD_TO_SQUARE_FIELD_NUMBER: _ClassVar[int]
    ADJUST_GAMMA_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    AUTOML_SCALE_JITTER_FIELD_NUMBER: _ClassVar[int]
    AUTOML_GRID_MASK_FIELD_NUMBER: _ClassVar[int]
    DROP_CROWD_BOXES_FIELD_NUMBER: _ClassVar[int]
    MOSAIC_FIELD_NUMBER: _ClassVar[int]
    MIXUP_FIELD_NUMBER: _ClassVar[int]
    COPY_PASTE_FIELD_NUMBER: _ClassVar[int]
    LARGE_SCALE_JITTER_FIELD_NUMBER: _ClassVar[int]
    normalize_image: NormalizeImage
    random_horizontal_flip: RandomHorizontalFlip
    random_pixel_value_scale: RandomPixelValueScale
    random_image_scale: RandomImageScale
    random_rgb_to_gray: RandomRGBtoGray
    random_adjust_brightness: RandomAdjustBrightness
    random_adjust_contrast: RandomAdjustContrast
    random_adjust_hue: RandomAdjustHue
    random_adjust_saturation: RandomAdjustSaturation
    random_distort_color: RandomDistortColor
    random_jitter_boxes: RandomJitterBoxes
    random_crop_image: RandomCropImage
    random_pad_image: RandomPadImage
    random_crop_pad_image: RandomCropPadImage
    random_crop_to_aspect_ratio: RandomCropToAspectRatio
    random_black_patches: RandomBlackPatches
    random_resize_method: RandomResizeMethod
    scale_boxes_to_pixel_coordinates: ScaleBoxesToPixelCoordinates
    resize_image: ResizeImage
    subtract_channel_mean: SubtractChannelMean
    ssd_random_crop: SSDRandomCrop
    ssd_random_crop_pad: SSDRandomCropPad
    ssd_random_crop_fixed_aspect_ratio: SSDRandomCropFixedAspectRatio
    ssd_random_crop_pad_fixed_aspect_ratio: SSDRandomCropPadFixedAspectRatio
    random_vertical_flip: RandomVerticalFlip
    random_rotation90: RandomRotation90
    rgb_to_gray: RGBtoGray
    convert_class_logits_to_softmax: ConvertClassLogitsToSoftmax
    random_absolute_pad_image: RandomAbsolutePadImage
    random_self_concat_image: RandomSelfConcatImage
    autoaugment_image: AutoAugmentImage
    drop_label_probabilistically: DropLabelProbabilistically
    remap_labels: RemapLabels
    random_jpeg_quality: RandomJpegQuality
    random_downscale_to_target_pixels: RandomDownscaleToTargetPixels
    random_patch_gaussian: RandomPatchGaussian
    random_square_crop_by_scale: RandomSquareCropByScale
    random_scale_crop_and_pad_to_square: RandomScaleCropAndPadToSquare
    adjust_gamma: AdjustGamma
    registered: _registered_pb2.RegisteredPart
    automl_scale_jitter: _automl_input_pb2.AutomlScaleJitter
    automl_grid_mask: _automl_input_pb2.AutomlGridMask
    drop_crowd_boxes: _automl_input_pb2.DropCrowdBoxes
    mosaic: _recipe_pb2.Mosaic
    mixup: _recipe_pb2.MixUp
    copy_paste: _recipe_pb2.CopyPaste
    large_scale_jitter: _recipe_pb2.LargeScaleJitter
    def __init__(self, normalize_image: _Optional[_Union[NormalizeImage, _Mapping]] = ..., random_horizontal_flip: _Optional[_Union[RandomHorizontalFlip, _Mapping]] = ..., random_pixel_value_scale: _Optional[_Union[RandomPixelValueScale, _Mapping]] = ..., random_image_scale: _Optional[_Union[RandomImageScale, _Mapping]] = ..., random_rgb_to_gray: _Optional[_Union[RandomRGBtoGray, _Mapping]] = ..., random_adjust_brightness: _Optional[_Union[RandomAdjustBrightness, _Mapping]] = ..., random_adjust_contrast: _Optional[_Union[RandomAdjustContrast, _Mapping]] = ..., random_adjust_hue: _Optional[_Union[RandomAdjustHue, _Mapping]] = ..., random_adjust_saturation: _Optional[_Union[RandomAdjustSaturation, _Mapping]] = ..., random_distort_color: _Optional[_Union[RandomDistortColor, _Mapping]] = ..., random_jitter_boxes: _Optional[_Union[RandomJitterBoxes, _Mapping]] = ..., random_crop_image: _Optional[_Union[RandomCropImage, _Mapping]] = ..., random_pad_image: _Optional[_Union[RandomPadImage, _Mapping]] = ..., random_crop_pad_image: _Optional[_Union[RandomCropPadImage, _Mapping]] = ..., random_crop_to_aspect_ratio: _Optional[_Union[RandomCropToAspectRatio, _Mapping]] = ..., random_black_patches: _Optional[_Union[RandomBlackPatches, _Mapping]] = ..., random_resize_method: _Optional[_Union[RandomResizeMethod, _Mapping]] = ..., scale_boxes_to_pixel_coordinates: _Optional[_Union[ScaleBoxesToPixelCoordinates, _Mapping]] = ..., resize_image: _Optional[_Union[ResizeImage, _Mapping]] = ..., subtract_channel_mean: _Optional[_Union[SubtractChannelMean, _Mapping]] = ..., ssd_random_crop: _Optional[_Union[SSDRandomCrop, _Mapping]] = ..., ssd_random_crop_pad: _Optional[_Union[SSDRandomCropPad, _Mapping]] = ..., ssd_random_crop_fixed_aspect_ratio: _Optional[_Union[SSDRandomCropFixedAspectRatio, _Mapping]] = ..., ssd_random_crop_pad_fixed_aspect_ratio: _Optional[_Union[SSDRandomCropPadFixedAspectRatio, _Mapping]] = ..., random_vertical_flip: _Optional[_Union[RandomVerticalFlip, _Mapping]] = ..., random_rotation90: _Optional[_Union[RandomRotation90, _Mapping]] = ..., rgb_to_gray: _Optional[_Union[RGBtoGray, _Mapping]] = ..., convert_class_logits_to_softmax: _Optional[_Union[ConvertClassLogitsToSoftmax, _Mapping]] = ..., random_absolute_pad_image: _Optional[_Union[RandomAbsolutePadImage, _Mapping]] = ..., random_self_concat_image: _Optional[_Union[RandomSelfConcatImage, _Mapping]] = ..., autoaugment_image: _Optional[_Union[AutoAugmentImage, _Mapping]] = ..., drop_label_probabilistically: _Optional[_Union[DropLabelProbabilistically, _Mapping]] = ..., remap_labels: _Optional[_Union[RemapLabels, _Mapping]] = ..., random_jpeg_quality: _Optional[_Union[RandomJpegQuality, _Mapping]] = ..., random_downscale_to_target_pixels: _Optional[_Union[RandomDownscaleToTargetPixels, _Mapping]] = ..., random_patch_gaussian: _Optional[_Union[RandomPatchGaussian, _Mapping]] = ..., random_square_crop_by_scale: _Optional[_Union[RandomSquareCropByScale, _Mapping]] = ..., random_scale_crop_and_pad_to_square: _Optional[_Union[RandomScaleCropAndPadToSquare, _Mapping]] = ..., adjust_gamma: _Optional[_Union[AdjustGamma, _Mapping]] = ..., registered: _Optional[_Union[_registered_pb2.RegisteredPart, _Mapping]] = ..., automl_scale_jitter: _Optional[_Union[_automl_input_pb2.AutomlScaleJitter, _Mapping]] = ..., automl_grid_mask: _Optional[_Union[_automl_input_pb2.AutomlGridMask, _Mapping]] = ..., drop_crowd_boxes: _Optional[_Union[_automl_input_pb2.DropCrowdBoxes, _Mapping]] = ..., mosaic: _Optional[_Union[_recipe_pb2.Mosaic, _Mapping]] = ..., mixup: _Optional[_Union[_recipe_pb2.MixUp, _Mapping]] = ..., copy_paste: _Optional[_Union[_recipe_pb2.CopyPaste, _Mapping]] = ..., large_scale_jitter: _Optional[_Union[_recipe_pb2.LargeScaleJitter, _Mapping]] = ...) -> None: ...

class NormalizeImage(_message.Message):
    __slots__ = ("original_minval", "original_maxval", "target_minval", "target_maxval")
    ORIGINAL_MINVAL_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_MAXVAL_FIELD_NUMBER: _ClassVar[int]
    TARGET_MINVAL_FIELD_NUMBER: _ClassVar[int]
    TARGET_MAXVAL_FIELD_NUMBER: _ClassVar[int]
    original_minval: float
    original_maxval: float
    target_minval: float
    target_maxval: float
    def __init__(self, original_minval: _Optional[float] = ..., original_maxval: _Optional[float] = ..., target_minval: _Optional[float] = ..., target_maxval: _Optional[float] = ...) -> None: ...

class RandomHorizontalFlip(_message.Message):
    __slots__ = ("keypoint_flip_permutation", "probability")
    KEYPOINT_FLIP_PERMUTATION_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    keypoint_flip_permutation: _containers.RepeatedScalarFieldContainer[int]
    probability: float
    def __init__(self, keypoint_flip_permutation: _Optional[_Iterable[int]] = ..., probability: _Optional[float] = ...) -> None: ...

class RandomVerticalFlip(_message.Message):
    __slots__ = ("keypoint_flip_permutation", "probability")
    KEYPOINT_FLIP_PERMUTATION_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    keypoint_flip_permutation: _containers.RepeatedScalarFieldContainer[int]
    probability: float
    def __init__(self, keypoint_flip_permutation: _Optional[_Iterable[int]] = ..., probability: _Optional[float] = ...) -> None: ...

class RandomRotation90(_message.Message):
    __slots__ = ("keypoint_rot_permutation", "probability")
    KEYPOINT_ROT_PERMUTATION_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    keypoint_rot_permutation: _containers.RepeatedScalarFieldContainer[int]
    probability: float
    def __init__(self, keypoint_rot_permutation: _Optional[_Iterable[int]] = ..., probability: _Optional[float] = ...) -> None: ...

class RandomPixelValueScale(_message.Message):
    __slots__ = ("minval", "maxval")
    MINVAL_FIELD_NUMBER: _ClassVar[int]
    MAXVAL_FIELD_NUMBER: _ClassVar[int]
    minval: float
    maxval: float
    def __init__(self, minval: _Optional[float] = ..., maxval: _Optional[float] = ...) -> None: ...

class RandomImageScale(_message.Message):
    __slots__ = ("min_scale_ratio", "max_scale_ratio")
    MIN_SCALE_RATIO_FIELD_NUMBER: _ClassVar[int]
    MAX_SCALE_RATIO_FIELD_NUMBER: _ClassVar[int]
    min_scale_ratio: float
    max_scale_ratio: float
    def __init__(self, min_scale_ratio: _Optional[float] = ..., max_scale_ratio: _Optional[float] = ...) -> None: ...

class RandomRGBtoGray(_message.Message):
    __slots__ = ("probability",)
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    probability: float
    def __init__(self, probability: _Optional[float] = ...) -> None: ...

class RandomAdjustBrightness(_message.Message):
    __slots__ = ("max_delta",)
    MAX_DELTA_FIELD_NUMBER: _ClassVar[int]
    max_delta: float
    def __init__(self, max_delta: _Optional[float] = ...) -> None: ...

class RandomAdjustContrast(_message.Message):
    __slots__ = ("min_delta", "max_delta")
    MIN_DELTA_FIELD_NUMBER: _ClassVar[int]
    MAX_DELTA_FIELD_NUMBER: _ClassVar[int]
    min_delta: float
    max_delta: float
    def __init__(self, min_delta: _Optional[float] = ..., max_delta: _Optional[float] = ...) -> None: ...

class RandomAdjustHue(_message.Message):
    __slots__ = ("max_delta",)
    MAX_DELTA_FIELD_NUMBER: _ClassVar[int]
    max_delta: float
    def __init__(self, max_delta: _Optional[float] = ...) -> None: ...

class RandomAdjustSaturation(_message.Message):
    __slots__ = ("min_delta", "max_delta")
    MIN_DELTA_FIELD_NUMBER: _ClassVar[int]
    MAX_DELTA_FIELD_NUMBER: _ClassVar[int]
    min_delta: float
    max_delta: float
    def __init__(self, min_delta: _Optional[float] = ..., max_delta: _Optional[float] = ...) -> None: ...

class RandomDistortColor(_message.Message):
    __slots__ = ("color_ordering",)
    COLOR_ORDERING_FIELD_NUMBER: _ClassVar[int]
    color_ordering: int
    def __init__(self, color_ordering: _Optional[int] = ...) -> None: ...

class RandomJitterBoxes(_message.Message):
    __slots__ = ("ratio", "jitter_mode")
    class JitterMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DEFAULT: _ClassVar[RandomJitterBoxes.JitterMode]
        EXPAND: _ClassVar[RandomJitterBoxes.JitterMode]
        SHRINK: _ClassVar[RandomJitterBoxes.JitterMode]
        EXPAND_SYMMETRIC: _ClassVar[RandomJitterBoxes.JitterMode]
        SHRINK_SYMMETRIC: _ClassVar[RandomJitterBoxes.JitterMode]
        EXPAND_SYMMETRIC_XY: _ClassVar[RandomJitterBoxes.JitterMode]
        SHRINK_SYMMETRIC_XY: _ClassVar[RandomJitterBoxes.JitterMode]
    DEFAULT: RandomJitterBoxes.JitterMode
    EXPAND: RandomJitterBoxes.JitterMode
    SHRINK: RandomJitterBoxes.JitterMode
    EXPAND_SYMMETRIC: RandomJitterBoxes.JitterMode
    SHRINK_SYMMETRIC: RandomJitterBoxes.JitterMode
    EXPAND_SYMMETRIC_XY: RandomJitterBoxes.JitterMode
    SHRINK_SYMMETRIC_XY: RandomJitterBoxes.JitterMode
    RATIO_FIELD_NUMBER: _ClassVar[int]
    JITTER_MODE_FIELD_NUMBER: _ClassVar[int]
    ratio: float
    jitter_mode: RandomJitterBoxes.JitterMode
    def __init__(self, ratio: _Optional[float] = ..., jitter_mode: _Optional[_Union[RandomJitterBoxes.JitterMode, str]] = ...) -> None: ...

class RandomCropImage(_message.Message):
    __slots__ = ("min_object_covered", "min_aspect_ratio", "max_aspect_ratio", "min_area", "max_area", "overlap_thresh", "clip_boxes", "random_coef")
    MIN_OBJECT_COVERED_FIELD_NUMBER: _ClassVar[int]
    MIN_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    MAX_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    MIN_AREA_FIELD_NUMBER: _ClassVar[int]
    MAX_AREA_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_THRESH_FIELD_NUMBER: _ClassVar[int]
    CLIP_BOXES_FIELD_NUMBER: _ClassVar[int]
    RANDOM_COEF_FIELD_NUMBER: _ClassVar[int]
    min_object_covered: float
    min_aspect_ratio: float
    max_aspect_ratio: float
    min_area: float
    max_area: float
    overlap_thresh: float
    clip_boxes: bool
    random_coef: float
    def __init__(self, min_object_covered: _Optional[float] = ..., min_aspect_ratio: _Optional[float] = ..., max_aspect_ratio: _Optional[float] = ..., min_area: _Optional[float] = ..., max_area: _Optional[float] = ..., overlap_thresh: _Optional[float] = ..., clip_boxes: bool = ..., random_coef: _Optional[float] = ...) -> None: ...

class RandomPadImage(_message.Message):
    __slots__ = ("min_image_height", "min_image_width", "max_image_height", "max_image_width", "pad_color")
    MIN_IMAGE_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    MIN_IMAGE_WIDTH_FIELD_NUMBER: _ClassVar[int]
    MAX_IMAGE_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_IMAGE_WIDTH_FIELD_NUMBER: _ClassVar[int]
    PAD_COLOR_FIELD_NUMBER: _ClassVar[int]
    min_image_height: int
    min_image_width: int
    max_image_height: int
    max_image_width: int
    pad_color: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, min_image_height: _Optional[int] = ..., min_image_width: _Optional[int] = ..., max_image_height: _Optional[int] = ..., max_image_width: _Optional[int] = ..., pad_color: _Optional[_Iterable[float]] = ...) -> None: ...

class RandomAbsolutePadImage(_message.Message):
    __slots__ = ("max_height_padding", "max_width_padding", "pad_color")
    MAX_HEIGHT_PADDING_FIELD_NUMBER: _ClassVar[int]
    MAX_WIDTH_PADDING_FIELD_NUMBER: _ClassVar[int]
    PAD_COLOR_FIELD_NUMBER: _ClassVar[int]
    max_height_padding: int
    max_width_padding: int
    pad_color: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, max_height_padding: _Optional[int] = ..., max_width_padding: _Optional[int] = ..., pad_color: _Optional[_Iterable[float]] = ...) -> None: ...

class RandomCropPadImage(_message.Message):
    __slots__ = ("min_object_covered", "min_aspect_ratio", "max_aspect_ratio", "min_area", "max_area", "overlap_thresh", "clip_boxes", "random_coef", "min_padded_size_ratio", "max_padded_size_ratio", "pad_color")
    MIN_OBJECT_COVERED_FIELD_NUMBER: _ClassVar[int]
    MIN_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    MAX_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    MIN_AREA_FIELD_NUMBER: _ClassVar[int]
    MAX_AREA_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_THRESH_FIELD_NUMBER: _ClassVar[int]
    CLIP_BOXES_FIELD_NUMBER: _ClassVar[int]
    RANDOM_COEF_FIELD_NUMBER: _ClassVar[int]
    MIN_PADDED_SIZE_RATIO_FIELD_NUMBER: _ClassVar[int]
    MAX_PADDED_SIZE_RATIO_FIELD_NUMBER: _ClassVar[int]
    PAD_COLOR_FIELD_NUMBER: _ClassVar[int]
    min_object_covered: float
    min_aspect_ratio: float
    max_aspect_ratio: float
    min_area: float
    max_area: float
    overlap_thresh: float
    clip_boxes: bool
    random_coef: float
    min_padded_size_ratio: _containers.RepeatedScalarFieldContainer[float]
    max_padded_size_ratio: _containers.RepeatedScalarFieldContainer[float]
    pad_color: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, min_object_covered: _Optional[float] = ..., min_aspect_ratio: _Optional[float] = ..., max_aspect_ratio: _Optional[float] = ..., min_area: _Optional[float] = ..., max_area: _Optional[float] = ..., overlap_thresh: _Optional[float] = ..., clip_boxes: bool = ..., random_coef: _Optional[float] = ..., min_padded_size_ratio: _Optional[_Iterable[float]] = ..., max_padded_size_ratio: _Optional[_Iterable[float]] = ..., pad_color: _Optional[_Iterable[float]] = ...) -> None: ...

class RandomCropToAspectRatio(_message.Message):
    __slots__ = ("aspect_ratio", "overlap_thresh", "clip_boxes")
    ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_THRESH_FIELD_NUMBER: _ClassVar[int]
    CLIP_BOXES_FIELD_NUMBER: _ClassVar[int]
    aspect_ratio: float
    overlap_thresh: float
    clip_boxes: bool
    def __init__(self, aspect_ratio: _Optional[float] = ..., overlap_thresh: _Optional[float] = ..., clip_boxes: bool = ...) -> None: ...

class RandomBlackPatches(_message.Message):
    __slots__ = ("max_black_patches", "probability", "size_to_image_ratio")
    MAX_BLACK_PATCHES_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    SIZE_TO_IMAGE_RATIO_FIELD_NUMBER: _ClassVar[int]
    max_black_patches: int
    probability: float
    size_to_image_ratio: float
    def __init__(self, max_black_patches: _Optional[int] = ..., probability: _Optional[float] = ..., size_to_image_ratio: _Optional[float] = ...) -> None: ...

class RandomResizeMethod(_message.Message):
    __slots__ = ("target_height", "target_width")
    TARGET_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    TARGET_WIDTH_FIELD_NUMBER: _ClassVar[int]
    target_height: int
    target_width: int
    def __init__(self, target_height: _Optional[int] = ..., target_width: _Optional[int] = ...) -> None: ...

class RGBtoGray(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ScaleBoxesToPixelCoordinates(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResizeImage(_message.Message):
    __slots__ = ("new_height", "new_width", "method")
    class Method(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        AREA: _ClassVar[ResizeImage.Method]
        BICUBIC: _ClassVar[ResizeImage.Method]
        BILINEAR: _ClassVar[ResizeImage.Method]
        NEAREST_NEIGHBOR: _ClassVar[ResizeImage.Method]
    AREA: ResizeImage.Method
    BICUBIC: ResizeImage.Method
    BILINEAR: ResizeImage.Method
    NEAREST_NEIGHBOR: ResizeImage.Method
    NEW_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    NEW_WIDTH_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    new_height: int
    new_width: int
    method: ResizeImage.Method
    def __init__(self, new_height: _Optional[int] = ..., new_width: _Optional[int] = ..., method: _Optional[_Union[ResizeImage.Method, str]] = ...) -> None: ...

class SubtractChannelMean(_message.Message):
    __slots__ = ("means",)
    MEANS_FIELD_NUMBER: _ClassVar[int]
    means: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, means: _Optional[_Iterable[float]] = ...) -> None: ...

class SSDRandomCropOperation(_message.Message):
    __slots__ = ("min_object_covered", "min_aspect_ratio", "max_aspect_ratio", "min_area", "max_area", "overlap_thresh", "clip_boxes", "random_coef")
    MIN_OBJECT_COVERED_FIELD_NUMBER: _ClassVar[int]
    MIN_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    MAX_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    MIN_AREA_FIELD_NUMBER: _ClassVar[int]
    MAX_AREA_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_THRESH_FIELD_NUMBER: _ClassVar[int]
    CLIP_BOXES_FIELD_NUMBER: _ClassVar[int]
    RANDOM_COEF_FIELD_NUMBER: _ClassVar[int]
    min_object_covered: float
    min_aspect_ratio: float
    max_aspect_ratio: float
    min_area: float
    max_area: float
    overlap_thresh: float
    clip_boxes: bool
    random_coef: float
    def __init__(self, min_object_covered: _Optional[float] = ..., min_aspect_ratio: _Optional[float] = ..., max_aspect_ratio: _Optional[float] = ..., min_area: _Optional[float] = ..., max_area: _Optional[float] = ..., overlap_thresh: _Optional[float] = ..., clip_boxes: bool = ..., random_coef: _Optional[float] = ...) -> None: ...

class SSDRandomCrop(_message.Message):
    __slots__ = ("operations",)
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    operations: _containers.RepeatedCompositeFieldContainer[SSDRandomCropOperation]
    def __init__(self, operations: _Optional[_Iterable[_Union[SSDRandomCropOperation, _Mapping]]] = ...) -> None: ...

class SSDRandomCropPadOperation(_message.Message):
    __slots__ = ("min_object_covered", "min_aspect_ratio", "max_aspect_ratio", "min_area", "max_area", "overlap_thresh", "clip_boxes", "random_coef", "min_padded_size_ratio", "max_padded_size_ratio", "pad_color_r", "pad_color_g", "pad_color_b")
    MIN_OBJECT_COVERED_FIELD_NUMBER: _ClassVar[int]
    MIN_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    MAX_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    MIN_AREA_FIELD_NUMBER: _ClassVar[int]
    MAX_AREA_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_THRESH_FIELD_NUMBER: _ClassVar[int]
    CLIP_BOXES_FIELD_NUMBER: _ClassVar[int]
    RANDOM_COEF_FIELD_NUMBER: _ClassVar[int]
    MIN_PADDED_SIZE_RATIO_FIELD_NUMBER: _ClassVar[int]
    MAX_PADDED_SIZE_RATIO_FIELD_NUMBER: _ClassVar[int]
    PAD_COLOR_R_FIELD_NUMBER: _ClassVar[int]
    PAD_COLOR_G_FIELD_NUMBER: _ClassVar[int]
    PAD_COLOR_B_FIELD_NUMBER: _ClassVar[int]
    min_object_covered: float
    min_aspect_ratio: float
    max_aspect_ratio: float
    min_area: float
    max_area: float
    overlap_thresh: float
    clip_boxes: bool
    random_coef: float
    min_padded_size_ratio: _containers.RepeatedScalarFieldContainer[float]
    max_padded_size_ratio: _containers.RepeatedScalarFieldContainer[float]
    pad_color_r: float
    pad_color_g: float
    pad_color_b: float
    def __init__(self, min_object_covered: _Optional[float] = ..., min_aspect_ratio: _Optional[float] = ..., max_aspect_ratio: _Optional[float] = ..., min_area: _Optional[float] = ..., max_area: _Optional[float] = ..., overlap_thresh: _Optional[float] = ..., clip_boxes: bool = ..., random_coef: _Optional[float] = ..., min_padded_size_ratio: _Optional[_Iterable[float]] = ..., max_padded_size_ratio: _Optional[_Iterable[float]] = ..., pad_color_r: _Optional[float] = ..., pad_color_g: _Optional[float] = ..., pad_color_b: _Optional[float] = ...) -> None: ...

class SSDRandomCropPad(_message.Message):
    __slots__ = ("operations",)
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    operations: _containers.RepeatedCompositeFieldContainer[SSDRandomCropPadOperation]
    def __init__(self, operations: _Optional[_Iterable[_Union[SSDRandomCropPadOperation, _Mapping]]] = ...) -> None: ...

class SSDRandomCropFixedAspectRatioOperation(_message.Message):
    __slots__ = ("min_object_covered", "min_area", "max_area", "overlap_thresh", "clip_boxes", "random_coef")
    MIN_OBJECT_COVERED_FIELD_NUMBER: _ClassVar[int]
    MIN_AREA_FIELD_NUMBER: _ClassVar[int]
    MAX_AREA_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_THRESH_FIELD_NUMBER: _ClassVar[int]
    CLIP_BOXES_FIELD_NUMBER: _ClassVar[int]
    RANDOM_COEF_FIELD_NUMBER: _ClassVar[int]
    min_object_covered: float
    min_area: float
    max_area: float
    overlap_thresh: float
    clip_boxes: bool
    random_coef: float
    def __init__(self, min_object_covered: _Optional[float] = ..., min_area: _Optional[float] = ..., max_area: _Optional[float] = ..., overlap_thresh: _Optional[float] = ..., clip_boxes: bool = ..., random_coef: _Optional[float] = ...) -> None: ...

class SSDRandomCropFixedAspectRatio(_message.Message):
    __slots__ = ("operations", "aspect_ratio")
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    operations: _containers.RepeatedCompositeFieldContainer[SSDRandomCropFixedAspectRatioOperation]
    aspect_ratio: float
    def __init__(self, operations: _Optional[_Iterable[_Union[SSDRandomCropFixedAspectRatioOperation, _Mapping]]] = ..., aspect_ratio: _Optional[float] = ...) -> None: ...

class SSDRandomCropPadFixedAspectRatioOperation(_message.Message):
    __slots__ = ("min_object_covered", "min_aspect_ratio", "max_aspect_ratio", "min_area", "max_area", "overlap_thresh", "clip_boxes", "random_coef")
    MIN_OBJECT_COVERED_FIELD_NUMBER: _ClassVar[int]
    MIN_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    MAX_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    MIN_AREA_FIELD_NUMBER: _ClassVar[int]
    MAX_AREA_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_THRESH_FIELD_NUMBER: _ClassVar[int]
    CLIP_BOXES_FIELD_NUMBER: _ClassVar[int]
    RANDOM_COEF_FIELD_NUMBER: _ClassVar[int]
    min_object_covered: float
    min_aspect_ratio: float
    max_aspect_ratio: float
    min_area: float
    max_area: float
    overlap_thresh: float
    clip_boxes: bool
    random_coef: float
    def __init__(self, min_object_covered: _Optional[float] = ..., min_aspect_ratio: _Optional[float] = ..., max_aspect_ratio: _Optional[float] = ..., min_area: _Optional[float] = ..., max_area: _Optional[float] = ..., overlap_thresh: _Optional[float] = ..., clip_boxes: bool = ..., random_coef: _Optional[float] = ...) -> None: ...

class SSDRandomCropPadFixedAspectRatio(_message.Message):
    __slots__ = ("operations", "aspect_ratio", "min_padded_size_ratio", "max_padded_size_ratio")
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    MIN_PADDED_SIZE_RATIO_FIELD_NUMBER: _ClassVar[int]
    MAX_PADDED_SIZE_RATIO_FIELD_NUMBER: _ClassVar[int]
    operations: _containers.RepeatedCompositeFieldContainer[SSDRandomCropPadFixedAspectRatioOperation]
    aspect_ratio: float
    min_padded_size_ratio: _containers.RepeatedScalarFieldContainer[float]
    max_padded_size_ratio: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, operations: _Optional[_Iterable[_Union[SSDRandomCropPadFixedAspectRatioOperation, _Mapping]]] = ..., aspect_ratio: _Optional[float] = ..., min_padded_size_ratio: _Optional[_Iterable[float]] = ..., max_padded_size_ratio: _Optional[_Iterable[float]] = ...) -> None: ...

class ConvertClassLogitsToSoftmax(_message.Message):
    __slots__ = ("temperature",)
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    temperature: float
    def __init__(self, temperature: _Optional[float] = ...) -> None: ...

class RandomSelfConcatImage(_message.Message):
    __slots__ = ("concat_vertical_probability", "concat_horizontal_probability")
    CONCAT_VERTICAL_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    CONCAT_HORIZONTAL_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    concat_vertical_probability: float
    concat_horizontal_probability: float
    def __init__(self, concat_vertical_probability: _Optional[float] = ..., concat_horizontal_probability: _Optional[float] = ...) -> None: ...

class AutoAugmentImage(_message.Message):
    __slots__ = ("policy_name",)
    POLICY_NAME_FIELD_NUMBER: _ClassVar[int]
    policy_name: str
    def __init__(self, policy_name: _Optional[str] = ...) -> None: ...

class DropLabelProbabilistically(_message.Message):
    __slots__ = ("label", "drop_probability")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    DROP_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    label: int
    drop_probability: float
    def __init__(self, label: _Optional[int] = ..., drop_probability: _Optional[float] = ...) -> None: ...

class RemapLabels(_message.Message):
    __slots__ = ("original_labels", "new_label")
    ORIGINAL_LABELS_FIELD_NUMBER: _ClassVar[int]
    NEW_LABEL_FIELD_NUMBER: _ClassVar[int]
    original_labels: _containers.RepeatedScalarFieldContainer[int]
    new_label: int
    def __init__(self, original_labels: _Optional[_Iterable[int]] = ..., new_label: _Optional[int] = ...) -> None: ...

class RandomJpegQuality(_message.Message):
    __slots__ = ("random_coef", "min_jpeg_quality", "max_jpeg_quality")
    RANDOM_COEF_FIELD_NUMBER: _ClassVar[int]
    MIN_JPEG_QUALITY_FIELD_NUMBER: _ClassVar[int]
    MAX_JPEG_QUALITY_FIELD_NUMBER: _ClassVar[int]
    random_coef: float
    min_jpeg_quality: int
    max_jpeg_quality: int
    def __init__(self, random_coef: _Optional[float] = ..., min_jpeg_quality: _Optional[int] = ..., max_jpeg_quality: _Optional[int] = ...) -> None: ...

class RandomDownscaleToTargetPixels(_message.Message):
    __slots__ = ("random_coef", "min_target_pixels", "max_target_pixels")
    RANDOM_COEF_FIELD_NUMBER: _ClassVar[int]
    MIN_TARGET_PIXELS_FIELD_NUMBER: _ClassVar[int]
    MAX_TARGET_PIXELS_FIELD_NUMBER: _ClassVar[int]
    random_coef: float
    min_target_pixels: int
    max_target_pixels: int
    def __init__(self, random_coef: _Optional[float] = ..., min_target_pixels: _Optional[int] = ..., max_target_pixels: _Optional[int] = ...) -> None: ...

class RandomPatchGaussian(_message.Message):
    __slots__ = ("random_coef", "min_patch_size", "max_patch_size", "min_gaussian_stddev", "max_gaussian_stddev")
    RANDOM_COEF_FIELD_NUMBER: _ClassVar[int]
    MIN_PATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_PATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    MIN_GAUSSIAN_STDDEV_FIELD_NUMBER: _ClassVar[int]
    MAX_GAUSSIAN_STDDEV_FIELD_NUMBER: _ClassVar[int]
    random_coef: float
    min_patch_size: int
    max_patch_size: int
    min_gaussian_stddev: float
    max_gaussian_stddev: float
    def __init__(self, random_coef: _Optional[float] = ..., min_patch_size: _Optional[int] = ..., max_patch_size: _Optional[int] = ..., min_gaussian_stddev: _Optional[float] = ..., max_gaussian_stddev: _Optional[float] = ...) -> None: ...

class RandomSquareCropByScale(_message.Message):
    __slots__ = ("max_border", "scale_min", "scale_max", "num_scales")
    MAX_BORDER_FIELD_NUMBER: _ClassVar[int]
    SCALE_MIN_FIELD_NUMBER: _ClassVar[int]
    SCALE_MAX_FIELD_NUMBER: _ClassVar[int]
    NUM_SCALES_FIELD_NUMBER: _ClassVar[int]
    max_border: int
    scale_min: float
    scale_max: float
    num_scales: int
    def __init__(self, max_border: _Optional[int] = ..., scale_min: _Optional[float] = ..., scale_max: _Optional[float] = ..., num_scales: _Optional[int] = ...) -> None: ...

class RandomScaleCropAndPadToSquare(_message.Message):
    __slots__ = ("output_size", "scale_min", "scale_max")
    OUTPUT_SIZE_FIELD_NUMBER: _ClassVar[int]
    SCALE_MIN_FIELD_NUMBER: _ClassVar[int]
    SCALE_MAX_FIELD_NUMBER: _ClassVar[int]
    output_size: int
    scale_min: float
    scale_max: float
    def __init__(self, output_size: _Optional[int] = ..., scale_min: _Optional[float] = ..., scale_max: _Optional[float] = ...) -> None: ...

class AdjustGamma(_message.Message):
    __slots__ = ("gamma", "gain")
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    GAIN_FIELD_NUMBER: _ClassVar[int]
    gamma: float
    gain: float
    def __init__(self, gamma: _Optional[float] = ..., gain: _Optional[float] = ...) -> None: ...
