from detection_core.protos import hyperparams_pb2 as _hyperparams_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BoxPredictor(_message.Message):
    __slots__ = ("convolutional_box_predictor", "mask_rcnn_box_predictor", "rfcn_box_predictor", "weight_shared_convolutional_box_predictor")
    CONVOLUTIONAL_BOX_PREDICTOR_FIELD_NUMBER: _ClassVar[int]
    MASK_RCNN_BOX_PREDICTOR_FIELD_NUMBER: _ClassVar[int]
    RFCN_BOX_PREDICTOR_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_SHARED_CONVOLUTIONAL_BOX_PREDICTOR_FIELD_NUMBER: _ClassVar[int]
    convolutional_box_predictor: ConvolutionalBoxPredictor
    mask_rcnn_box_predictor: MaskRCNNBoxPredictor
    rfcn_box_predictor: RfcnBoxPredictor
    weight_shared_convolutional_box_predictor: WeightSharedConvolutionalBoxPredictor
    def __init__(self, convolutional_box_predictor: _Optional[_Union[ConvolutionalBoxPredictor, _Mapping]] = ..., mask_rcnn_box_predictor: _Optional[_Union[MaskRCNNBoxPredictor, _Mapping]] = ..., rfcn_box_predictor: _Optional[_Union[RfcnBoxPredictor, _Mapping]] = ..., weight_shared_convolutional_box_predictor: _Optional[_Union[WeightSharedConvolutionalBoxPredictor, _Mapping]] = ...) -> None: ...

class ConvolutionalBoxPredictor(_message.Message):
    __slots__ = ("conv_hyperparams", "min_depth", "max_depth", "num_layers_before_predictor", "use_dropout", "dropout_keep_probability", "kernel_size", "box_code_size", "apply_sigmoid_to_scores", "class_prediction_bias_init", "use_depthwise", "box_encodings_clip_range")
    class BoxEncodingsClipRange(_message.Message):
        __slots__ = ("min", "max")
        MIN_FIELD_NUMBER: _ClassVar[int]
        MAX_FIELD_NUMBER: _ClassVar[int]
        min: float
        max: float
        def __init__(self, min: _Optional[float] = ..., max: _Optional[float] = ...) -> None: ...
    CONV_HYPERPARAMS_FIELD_NUMBER: _ClassVar[int]
    MIN_DEPTH_FIELD_NUMBER: _ClassVar[int]
    MAX_DEPTH_FIELD_NUMBER: _ClassVar[int]
    NUM_LAYERS_BEFORE_PREDICTOR_FIELD_NUMBER: _ClassVar[int]
    USE_DROPOUT_FIELD_NUMBER: _ClassVar[int]
    DROPOUT_KEEP_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    BOX_CODE_SIZE_FIELD_NUMBER: _ClassVar[int]
    APPLY_SIGMOID_TO_SCORES_FIELD_NUMBER: _ClassVar[int]
    CLASS_PREDICTION_BIAS_INIT_FIELD_NUMBER: _ClassVar[int]
    USE_DEPTHWISE_FIELD_NUMBER: _ClassVar[int]
    BOX_ENCODINGS_CLIP_RANGE_FIELD_NUMBER: _ClassVar[int]
    conv_hyperparams: _hyperparams_pb2.Hyperparams
    min_depth: int
    max_depth: int
    num_layers_before_predictor: int
    use_dropout: bool
    dropout_keep_probability: float
    kernel_size: int
    box_code_size: int
    apply_sigmoid_to_scores: bool
    class_prediction_bias_init: float
    use_depthwise: bool
    box_encodings_clip_range: ConvolutionalBoxPredictor.BoxEncodingsClipRange
    def __init__(self, conv_hyperparams: _Optional[_Union[_hyperparams_pb2.Hyperparams, _Mapping]] = ..., min_depth: _Optional[int] = ..., max_depth: _Optional[int] = ..., num_layers_before_predictor: _Optional[int] = ..., use_dropout: bool = ..., dropout_keep_probability: _Optional[float] = ..., kernel_size: _Optional[int] = ..., box_code_size: _Optional[int] = ..., apply_sigmoid_to_scores: bool = ..., class_prediction_bias_init: _Optional[float] = ..., use_depthwise: bool = ..., box_encodings_clip_range: _Optional[_Union[ConvolutionalBoxPredictor.BoxEncodingsClipRange, _Mapping]] = ...) -> None: ...

class WeightSharedConvolutionalBoxPredictor(_message.Message):
    __slots__ = ("conv_hyperparams", "apply_conv_hyperparams_to_heads", "apply_conv_hyperparams_pointwise", "num_layers_before_predictor", "depth", "kernel_size", "box_code_size", "class_prediction_bias_init", "use_dropout", "dropout_keep_probability", "share_prediction_tower", "use_depthwise", "score_converter", "box_encodings_clip_range")
    class ScoreConverter(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        IDENTITY: _ClassVar[WeightSharedConvolutionalBoxPredictor.ScoreConverter]
        SIGMOID: _ClassVar[WeightSharedConvolutionalBoxPredictor.ScoreConverter]
    IDENTITY: WeightSharedConvolutionalBoxPredictor.ScoreConverter
    SIGMOID: WeightSharedConvolutionalBoxPredictor.ScoreConverter
    class BoxEncodingsClipRange(_message.Message):
        __slots__ = ("min", "max")
        MIN_FIELD_NUMBER: _ClassVar[int]
        MAX_FIELD_NUMBER: _ClassVar[int]
        min: float
        max: float
        def __init__(self, min: _Optional[float] = ..., max: _Optional[float] = ...) -> None: ...
    CONV_HYPERPARAMS_FIELD_NUMBER: _ClassVar[int]
    APPLY_CONV_HYPERPARAMS_TO_HEADS_FIELD_NUMBER: _ClassVar[int]
    APPLY_CONV_HYPERPARAMS_POINTWISE_FIELD_NUMBER: _ClassVar[int]
    NUM_LAYERS_BEFORE_PREDICTOR_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    BOX_CODE_SIZE_FIELD_NUMBER: _ClassVar[int]
    CLASS_PREDICTION_BIAS_INIT_FIELD_NUMBER: _ClassVar[int]
    USE_DROPOUT_FIELD_NUMBER: _ClassVar[int]
    DROPOUT_KEEP_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    SHARE_PREDICTION_TOWER_FIELD_NUMBER: _ClassVar[int]
    USE_DEPTHWISE_FIELD_NUMBER: _ClassVar[int]
    SCORE_CONVERTER_FIELD_NUMBER: _ClassVar[int]
    BOX_ENCODINGS_CLIP_RANGE_FIELD_NUMBER: _ClassVar[int]
    conv_hyperparams: _hyperparams_pb2.Hyperparams
    apply_conv_hyperparams_to_heads: bool
    apply_conv_hyperparams_pointwise: bool
    num_layers_before_predictor: int
    depth: int
    kernel_size: int
    box_code_size: int
    class_prediction_bias_init: float
    use_dropout: bool
    dropout_keep_probability: float
    share_prediction_tower: bool
    use_depthwise: bool
    score_converter: WeightSharedConvolutionalBoxPredictor.ScoreConverter
    box_encodings_clip_range: WeightSharedConvolutionalBoxPredictor.BoxEncodingsClipRange
    def __init__(self, conv_hyperparams: _Optional[_Union[_hyperparams_pb2.Hyperparams, _Mapping]] = ..., apply_conv_hyperparams_to_heads: bool = ..., apply_conv_hyperparams_pointwise: bool = ..., num_layers_before_predictor: _Optional[int] = ..., depth: _Optional[int] = ..., kernel_size: _Optional[int] = ..., box_code_size: _Optional[int] = ..., class_prediction_bias_init: _Optional[float] = ..., use_dropout: bool = ..., dropout_keep_probability: _Optional[float] = ..., share_prediction_tower: bool = ..., use_depthwise: bool = ..., score_converter: _Optional[_Union[WeightSharedConvolutionalBoxPredictor.ScoreConverter, str]] = ..., box_encodings_clip_range: _Optional[_Union[WeightSharedConvolutionalBoxPredictor.BoxEncodingsClipRange, _Mapping]] = ...) -> None: ...

class MaskRCNNBoxPredictor(_message.Message):
    __slots__ = ("fc_hyperparams", "use_dropout", "dropout_keep_probability", "box_code_size", "conv_hyperparams", "predict_instance_masks", "mask_prediction_conv_depth", "predict_keypoints", "mask_height", "mask_width", "mask_prediction_num_conv_layers", "masks_are_class_agnostic", "share_box_across_classes", "convolve_then_upsample_masks")
    FC_HYPERPARAMS_FIELD_NUMBER: _ClassVar[int]
    USE_DROPOUT_FIELD_NUMBER: _ClassVar[int]
    DROPOUT_KEEP_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    BOX_CODE_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONV_HYPERPARAMS_FIELD_NUMBER: _ClassVar[int]
    PREDICT_INSTANCE_MASKS_FIELD_NUMBER: _ClassVar[int]
    MASK_PREDICTION_CONV_DEPTH_FIELD_NUMBER: _ClassVar[int]
    PREDICT_KEYPOINTS_FIELD_NUMBER: _ClassVar[int]
    MASK_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    MASK_WIDTH_FIELD_NUMBER: _ClassVar[int]
    MASK_PREDICTION_NUM_CONV_LAYERS_FIELD_NUMBER: _ClassVar[int]
    MASKS_ARE_CLASS_AGNOSTIC_FIELD_NUMBER: _ClassVar[int]
    SHARE_BOX_ACROSS_CLASSES_FIELD_NUMBER: _ClassVar[int]
    CONVOLVE_THEN_UPSAMPLE_MASKS_FIELD_NUMBER: _ClassVar[int]
    fc_hyperparams: _hyperparams_pb2.Hyperparams
    use_dropout: bool
    dropout_keep_probability: float
    box_code_size: int
    conv_hyperparams: _hyperparams_pb2.Hyperparams
    predict_instance_masks: bool
    mask_prediction_conv_depth: int
    predict_keypoints: bool
    mask_height: int
    mask_width: int
    mask_prediction_num_conv_layers: int
    masks_are_class_agnostic: bool
    share_box_across_classes: bool
    convolve_then_upsample_masks: bool
    def __init__(self, fc_hyperparams: _Optional[_Union[_hyperparams_pb2.Hyperparams, _Mapping]] = ..., use_dropout: bool = ..., dropout_keep_probability: _Optional[float] = ..., box_code_size: _Optional[int] = ..., conv_hyperparams: _Optional[_Union[_hyperparams_pb2.Hyperparams, _Mapping]] = ..., predict_instance_masks: bool = ..., mask_prediction_conv_depth: _Optional[int] = ..., predict_keypoints: bool = ..., mask_height: _Optional[int] = ..., mask_width: _Optional[int] = ..., mask_prediction_num_conv_layers: _Optional[int] = ..., masks_are_class_agnostic: bool = ..., share_box_across_classes: bool = ..., convolve_then_upsample_masks: bool = ...) -> None: ...

class RfcnBoxPredictor(_message.Message):
    __slots__ = ("conv_hyperparams", "num_spatial_bins_height", "num_spatial_bins_width", "depth", "box_code_size", "crop_height", "crop_width")
    CONV_HYPERPARAMS_FIELD_NUMBER: _ClassVar[int]
    NUM_SPATIAL_BINS_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    NUM_SPATIAL_BINS_WIDTH_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    BOX_CODE_SIZE_FIELD_NUMBER: _ClassVar[int]
    CROP_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    CROP_WIDTH_FIELD_NUMBER: _ClassVar[int]
    conv_hyperparams: _hyperparams_pb2.Hyperparams
    num_spatial_bins_height: int
    num_spatial_bins_width: int
    depth: int
    box_code_size: int
    crop_height: int
    crop_width: int
    def __init__(self, conv_hyperparams: _Optional[_Union[_hyperparams_pb2.Hyperparams, _Mapping]] = ..., num_spatial_bins_height: _Optional[int] = ..., num_spatial_bins_width: _Optional[int] = ..., depth: _Optional[int] = ..., box_code_size: _Optional[int] = ..., crop_height: _Optional[int] = ..., crop_width: _Optional[int] = ...) -> None: ...
