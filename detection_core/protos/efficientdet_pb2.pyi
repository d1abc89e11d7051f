from detection_core.protos import image_resizer_pb2 as _image_resizer_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EfficientDet(_message.Message):
    __slots__ = ("name", "num_classes", "image_resizer", "backbone_name", "act_type", "mean_rgb", "stddev_rgb", "scale_range", "min_level", "max_level", "fpn_num_filters", "fpn_cell_repeats", "fpn_name", "fpn_weight_method", "fpn_nodes", "separable_conv", "apply_bn_for_resampling", "conv_after_downsample", "conv_bn_act_pattern", "pooling_type", "box_class_repeats", "survival_prob", "heads", "seg_num_classes", "num_scales", "aspect_ratios", "anchor_shapes", "anchor_scale", "label_smoothing", "alpha", "gamma", "delta", "box_loss_weight", "iou_loss_type", "iou_loss_weight", "weight_decay", "positives_momentum", "var_freeze_expr", "skip_crowd_during_training", "sync_batch_norm", "restore_moving_averages", "nms_configs")
    class FeatureNode(_message.Message):
        __slots__ = ("feat_level", "inputs_offsets")
        FEAT_LEVEL_FIELD_NUMBER: _ClassVar[int]
        INPUTS_OFFSETS_FIELD_NUMBER: _ClassVar[int]
        feat_level: int
        inputs_offsets: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, feat_level: _Optional[int] = ..., inputs_offsets: _Optional[_Iterable[int]] = ...) -> None: ...
    class AnchorShape(_message.Message):
        __slots__ = ("width_factor", "height_factor")
        WIDTH_FACTOR_FIELD_NUMBER: _ClassVar[int]
        HEIGHT_FACTOR_FIELD_NUMBER: _ClassVar[int]
        width_factor: float
        height_factor: float
        def __init__(self, width_factor: _Optional[float] = ..., height_factor: _Optional[float] = ...) -> None: ...
    class NonMaxSuppression(_message.Message):
        __slots__ = ("method", "iou_thresh", "score_thresh", "sigma", "max_nms_inputs", "max_output_size", "mode")
        METHOD_FIELD_NUMBER: _ClassVar[int]
        IOU_THRESH_FIELD_NUMBER: _ClassVar[int]
        SCORE_THRESH_FIELD_NUMBER: _ClassVar[int]
        SIGMA_FIELD_NUMBER: _ClassVar[int]
        MAX_NMS_INPUTS_FIELD_NUMBER: _ClassVar[int]
        MAX_OUTPUT_SIZE_FIELD_NUMBER: _ClassVar[int]
        MODE_FIELD_NUMBER: _ClassVar[int]
        method: str
        iou_thresh: float
        score_thresh: float
        sigma: float
        max_nms_inputs: int
        max_output_size: int
        mode: str
        def __init__(self, method: _Optional[str] = ..., iou_thresh: _Optional[float] = ..., score_thresh: _Optional[float] = ..., sigma: _Optional[float] = ..., max_nms_inputs: _Optional[int] = ..., max_output_size: _Optional[int] = ..., mode: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    IMAGE_RESIZER_FIELD_NUMBER: _ClassVar[int]
    BACKBONE_NAME_FIELD_NUMBER: _ClassVar[int]
    ACT_TYPE_FIELD_NUMBER: _ClassVar[int]
    MEAN_RGB_FIELD_NUMBER: _ClassVar[int]
    STDDEV_RGB_FIELD_NUMBER: _ClassVar[int]
    SCALE_RANGE_FIELD_NUMBER: _ClassVar[int]
    MIN_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MAX_LEVEL_FIELD_NUMBER: _ClassVar[int]
    FPN_NUM_FILTERS_FIELD_NUMBER: _ClassVar[int]
    FPN_CELL_REPEATS_FIELD_NUMBER: _ClassVar[int]
    FPN_NAME_FIELD_NUMBER: _ClassVar[int]
    FPN_WEIGHT_METHOD_FIELD_NUMBER: _ClassVar[int]
    FPN_NODES_FIELD_NUMBER: _ClassVar[int]
    SEPARABLE_CONV_FIELD_NUMBER: _ClassVar[int]
    APPLY_BN_FOR_RESAMPLING_FIELD_NUMBER: _ClassVar[int]
    CONV_AFTER_DOWNSAMPLE_FIELD_NUMBER: _ClassVar[int]
    CONV_BN_ACT_PATTERN_FIELD_NUMBER: _ClassVar[int]
    POOLING_TYPE_FIELD_NUMBER: _ClassVar[int]
    BOX_CLASS_REPEATS_FIELD_NUMBER: _ClassVar[int]
    SURVIVAL_PROB_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    SEG_NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    NUM_SCALES_FIELD_NUMBER: _ClassVar[int]
    ASPECT_RATIOS_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_SHAPES_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_SCALE_FIELD_NUMBER: _ClassVar[int]
    LABEL_SMOOTHING_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    BOX_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    IOU_LOSS_TYPE_FIELD_NUMBER: _ClassVar[int]
    IOU_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FIELD_NUMBER: _ClassVar[int]
    POSITIVES_MOMENTUM_FIELD_NUMBER: _ClassVar[int]
    VAR_FREEZE_EXPR_FIELD_NUMBER: _ClassVar[int]
    SKIP_CROWD_DURING_TRAINING_FIELD_NUMBER: _ClassVar[int]
    SYNC_BATCH_NORM_FIELD_NUMBER: _ClassVar[int]
    RESTORE_MOVING_AVERAGES_FIELD_NUMBER: _ClassVar[int]
    NMS_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    num_classes: int
    image_resizer: _image_resizer_pb2.ImageResizer
    backbone_name: str
    act_type: str
    mean_rgb: _containers.RepeatedScalarFieldContainer[float]
    stddev_rgb: _containers.RepeatedScalarFieldContainer[float]
    scale_range: bool
    min_level: int
    max_level: int
    fpn_num_filters: int
    fpn_cell_repeats: int
    fpn_name: str
    fpn_weight_method: str
    fpn_nodes: _containers.RepeatedCompositeFieldContainer[EfficientDet.FeatureNode]
    separable_conv: bool
    apply_bn_for_resampling: bool
    conv_after_downsample: bool
    conv_bn_act_pattern: bool
    pooling_type: str
    box_class_repeats: int
    survival_prob: float
    heads: _containers.RepeatedScalarFieldContainer[str]
    seg_num_classes: int
    num_scales: int
    aspect_ratios: _containers.RepeatedScalarFieldContainer[float]
    anchor_shapes: _containers.RepeatedCompositeFieldContainer[EfficientDet.AnchorShape]
    anchor_scale: _containers.RepeatedScalarFieldContainer[float]
    label_smoothing: float
    alpha: float
    gamma: float
    delta: float
    box_loss_weight: float
    iou_loss_type: str
    iou_loss_weight: float
    weight_decay: float
    positives_momentum: float
    var_freeze_expr: str
    skip_crowd_during_training: bool
    sync_batch_norm: bool
    restore_moving_averages: bool
    nms_configs: EfficientDet.NonMaxSuppression
    def __init__(self, name: _Optional[str] = ..., num_classes: _Optional[int] = ..., image_resizer: _Optional[_Union[_image_resizer_pb2.ImageResizer, _Mapping]] = ..., backbone_name: _Optional[str] = ..., act_type: _Optional[str] = ..., mean_rgb: _Optional[_Iterable[float]] = ..., stddev_rgb: _Optional[_Iterable[float]] = ..., scale_range: bool = ..., min_level: _Optional[int] = ..., max_level: _Optional[int] = ..., fpn_num_filters: _Optional[int] = ..., fpn_cell_repeats: _Optional[int] = ..., fpn_name: _Optional[str] = ..., fpn_weight_method: _Optional[str] = ..., fpn_nodes: _Optional[_Iterable[_Union[EfficientDet.FeatureNode, _Mapping]]] = ..., separable_conv: bool = ..., apply_bn_for_resampling: bool = ..., conv_after_downsample: bool = ..., conv_bn_act_pattern: bool = ..., pooling_type: _Optional[str] = ..., box_class_repeats: _Optional[int] = ..., survival_prob: _Optional[float] = ..., heads: _Optional[_Iterable[str]] = ..., seg_num_classes: _Optional[int] = ..., num_scales: _Optional[int] = ..., aspect_ratios: _Optional[_Iterable[float]] = ..., anchor_shapes: _Optional[_Iterable[_Union[EfficientDet.AnchorShape, _Mapping]]] = ..., anchor_scale: _Optional[_Iterable[float]] = ..., label_smoothing: _Optional[float] = ..., alpha: _Optional[float] = ..., gamma: _Optional[float] = ..., delta: _Optional[float] = ..., box_loss_weight: _Optional[float] = ..., iou_loss_type: _Optional[str] = ..., iou_loss_weight: _Optional[float] = ..., weight_decay: _Optional[float] = ..., positives_momentum: _Optional[float] = ..., var_freeze_expr: _Optional[str] = ..., skip_crowd_during_training: bool = ..., sync_batch_norm: bool = ..., restore_moving_averages: bool = ..., nms_configs: _Optional[_Union[EfficientDet.NonMaxSuppression, _Mapping]] = ...) -> None: ...
