from detection_core.protos import anchor_generator_pb2 as _anchor_generator_pb2
from detection_core.protos import box_predictor_pb2 as _box_predictor_pb2
from detection_core.protos import hyperparams_pb2 as _hyperparams_pb2
from detection_core.protos import image_resizer_pb2 as _image_resizer_pb2
from detection_core.protos import losses_pb2 as _losses_pb2
from detection_core.protos import post_processing_pb2 as _post_processing_pb2
from detection_core.protos import fpn_pb2 as _fpn_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AttentionPosition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTENTION_DEFAULT: _ClassVar[AttentionPosition]
    POST_BOX_CLASSIFIER: _ClassVar[AttentionPosition]
    POST_RPN: _ClassVar[AttentionPosition]
ATTENTION_DEFAULT: AttentionPosition
POST_BOX_CLASSIFIER: AttentionPosition
POST_RPN: AttentionPosition

class FasterRcnn(_message.Message):
    __slots__ = ("number_of_stages", "num_classes", "image_resizer", "feature_extractor", "first_stage_anchor_generator", "first_stage_atrous_rate", "first_stage_box_predictor_conv_hyperparams", "first_stage_box_predictor_kernel_size", "first_stage_box_predictor_depth", "first_stage_minibatch_size", "first_stage_positive_balance_fraction", "first_stage_nms_score_threshold", "first_stage_nms_iou_threshold", "first_stage_max_proposals", "first_stage_localization_loss_weight", "first_stage_objectness_loss_weight", "initial_crop_size", "maxpool_kernel_size", "maxpool_stride", "second_stage_box_predictor", "second_stage_batch_size", "second_stage_balance_fraction", "second_stage_post_processing", "second_stage_localization_loss_weight", "second_stage_classification_loss_weight", "second_stage_mask_prediction_loss_weight", "hard_example_miner", "second_stage_classification_loss", "inplace_batchnorm_update", "use_matmul_crop_and_resize", "clip_anchors_to_image", "use_matmul_gather_in_matcher", "use_static_balanced_label_sampler", "use_static_shapes", "resize_masks", "use_static_shapes_for_eval", "use_partitioned_nms_in_first_stage", "return_raw_detections_during_predict", "use_combined_nms_in_first_stage", "output_final_box_features", "output_final_box_rpn_features", "context_config")
    NUMBER_OF_STAGES_FIELD_NUMBER: _ClassVar[int]
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    IMAGE_RESIZER_FIELD_NUMBER: _ClassVar[int]
    FEATURE_EXTRACTOR_FIELD_NUMBER: _ClassVar[int]
    FIRST_STAGE_ANCHOR_GENERATOR_FIELD_NUMBER: _ClassVar[int]
    FIRST_STAGE_ATROUS_RATE_FIELD_NUMBER: _ClassVar[int]
    FIRST_STAGE_BOX_PREDICTOR_CONV_HYPERPARAMS_FIELD_NUMBER: _ClassVar[int]
    FIRST_STAGE_BOX_PREDICTOR_KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    FIRST_STAGE_BOX_PREDICTOR_DEPTH_FIELD_NUMBER: _ClassVar[int]
    FIRST_STAGE_MINIBATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    FIRST_STAGE_POSITIVE_BALANCE_FRACTION_FIELD_NUMBER: _ClassVar[int]
    FIRST_STAGE_NMS_SCORE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    FIRST_STAGE_NMS_IOU_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    FIRST_STAGE_MAX_PROPOSALS_FIELD_NUMBER: _ClassVar[int]
    FIRST_STAGE_LOCALIZATION_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    FIRST_STAGE_OBJECTNESS_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    INITIAL_CROP_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAXPOOL_KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAXPOOL_STRIDE_FIELD_NUMBER: _ClassVar[int]
    SECOND_STAGE_BOX_PREDICTOR_FIELD_NUMBER: _ClassVar[int]
    SECOND_STAGE_BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    SECOND_STAGE_BALANCE_FRACTION_FIELD_NUMBER: _ClassVar[int]
    SECOND_STAGE_POST_PROCESSING_FIELD_NUMBER: _ClassVar[int]
    SECOND_STAGE_LOCALIZATION_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SECOND_STAGE_CLASSIFICATION_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SECOND_STAGE_MASK_PREDICTION_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    HARD_EXAMPLE_MINER_FIELD_NUMBER: _ClassVar[int]
    SECOND_STAGE_CLASSIFICATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    INPLACE_BATCHNORM_UPDATE_FIELD_NUMBER: _ClassVar[int]
    USE_MATMUL_CROP_AND_RESIZE_FIELD_NUMBER: _ClassVar[int]
    CLIP_ANCHORS_TO_IMAGE_FIELD_NUMBER: _ClassVar[int]
    USE_MATMUL_GATHER_IN_MATCHER_FIELD_NUMBER: _ClassVar[int]
    USE_STATIC_BALANCED_LABEL_SAMPLER_FIELD_NUMBER: _ClassVar[int]
    USE_STATIC_SHAPES_FIELD_NUMBER: _ClassVar[int]
    RESIZE_MASKS_FIELD_NUMBER: _ClassVar[int]
    USE_STATIC_SHAPES_FOR_EVAL_FIELD_NUMBER: _ClassVar[int]
    USE_PARTITIONED_NMS_IN_FIRST_STAGE_FIELD_NUMBER: _ClassVar[int]
    RETURN_RAW_DETECTIONS_DURING_PREDICT_FIELD_NUMBER: _ClassVar[int]
    USE_COMBINED_NMS_IN_FIRST_STAGE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FINAL_BOX_FEATURES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FINAL_BOX_RPN_FEATURES_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_CONFIG_FIELD_NUMBER: _ClassVar[int]
    number_of_stages: int
    num_classes: int
    image_resizer: _image_resizer_pb2.ImageResizer
    feature_extractor: FasterRcnnFeatureExtractor
    first_stage_anchor_generator: _anchor_generator_pb2.AnchorGenerator
    first_stage_atrous_rate: int
    first_stage_box_predictor_conv_hyperparams: _hyperparams_pb2.Hyperparams
    first_stage_box_predictor_kernel_size: int
    first_stage_box_predictor_depth: int
    first_stage_minibatch_size: int
    first_stage_positive_balance_fraction: float
    first_stage_nms_score_threshold: float
    first_stage_nms_iou_threshold: float
    first_stage_max_proposals: int
    first_stage_localization_loss_weight: float
    first_stage_objectness_loss_weight: float
    initial_crop_size: int
    maxpool_kernel_size: int
    maxpool_stride: int
    second_stage_box_predictor: _box_predictor_pb2.BoxPredictor
    second_stage_batch_size: int
    second_stage_balance_fraction: float
    second_stage_post_processing: _post_processing_pb2.PostProcessing
    second_stage_localization_loss_weight: float
    second_stage_classification_loss_weight: float
    second_stage_mask_prediction_loss_weight: float
    hard_example_miner: _losses_pb2.HardExampleMiner
    second_stage_classification_loss: _losses_pb2.ClassificationLoss
    inplace_batchnorm_update: bool
    use_matmul_crop_and_resize: bool
    clip_anchors_to_image: bool
    use_matmul_gather_in_matcher: bool
    use_static_balanced_label_sampler: bool
    use_static_shapes: bool
    resize_masks: bool
    use_static_shapes_for_eval: bool
    use_partitioned_nms_in_first_stage: bool
    return_raw_detections_during_predict: bool
    use_combined_nms_in_first_stage: bool
    output_final_box_features: bool
    output_final_box_rpn_features: bool
    context_config: Context
    def __init__(self, number_of_stages: _Optional[int] = ..., num_classes: _Optional[int] = ..., image_resizer: _Optional[_Union[_image_resizer_pb2.ImageResizer, _Mapping]] = ..., feature_extractor: _Optional[_Union[FasterRcnnFeatureExtractor, _Mapping]] = ..., first_stage_anchor_generator: _Optional[_Union[_anchor_generator_pb2.AnchorGenerator, _Mapping]] = ..., first_stage_atrous_rate: _Optional[int] = ..., first_stage_box_predictor_conv_hyperparams: _Optional[_Union[_hyperparams_pb2.Hyperparams, _Mapping]] = ..., first_stage_box_predictor_kernel_size: _Optional[int] = ..., first_stage_box_predictor_depth: _Optional[int] = ..., first_stage_minibatch_size: _Optional[int] = ..., first_stage_positive_balance_fraction: _Optional[float] = ..., first_stage_nms_score_threshold: _Optional[float] = ..., first_stage_nms_iou_threshold: _Optional[float] = ..., first_stage_max_proposals: _Optional[int] = ..., first_stage_localization_loss_weight: _Optional[float] = ..., first_stage_objectness_loss_weight: _Optional[float] = ..., initial_crop_size: _Optional[int] = ..., maxpool_kernel_size: _Optional[int] = ..., maxpool_stride: _Optional[int] = ..., second_stage_box_predictor: _Optional[_Union[_box_predictor_pb2.BoxPredictor, _Mapping]] = ..., second_stage_batch_size: _Optional[int] = ..., second_stage_balance_fraction: _Optional[float] = ..., second_stage_post_processing: _Optional[_Union[_post_processing_pb2.PostProcessing, _Mapping]] = ..., second_stage_localization_loss_weight: _Optional[float] = ..., second_stage_classification_loss_weight: _Optional[float] = ..., second_stage_mask_prediction_loss_weight: _Optional[float] = ..., hard_example_miner: _Optional[_Union[_losses_pb2.HardExampleMiner, _Mapping]] = ..., second_stage_classification_loss: _Optional[_Union[_losses_pb2.ClassificationLoss, _Mapping]] = ..., inplace_batchnorm_update: bool = ..., use_matmul_crop_and_resize: bool = ..., clip_anchors_to_image: bool = ..., use_matmul_gather_in_matcher: bool = ..., use_static_balanced_label_sampler: bool = ..., use_static_shapes: bool = ..., resize_masks: bool = ..., use_static_shapes_for_eval: bool = ..., use_partitioned_nms_in_first_stage: bool = ..., return_raw_detections_during_predict: bool = ..., use_combined_nms_in_first_stage: bool = ..., output_final_box_features: bool = ..., output_final_box_rpn_features: bool = ..., context_config: _Optional[_Union[Context, _Mapping]] = ...) -> None: ...

class Context(_message.Message):
    __slots__ = ("max_num_context_features", "attention_bottleneck_dimension", "attention_temperature", "context_feature_length", "use_self_attention", "use_long_term_attention", "self_attention_in_sequence", "num_attention_heads", "num_attention_layers", "attention_position")
    MAX_NUM_CONTEXT_FEATURES_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_BOTTLENECK_DIMENSION_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FEATURE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    USE_SELF_ATTENTION_FIELD_NUMBER: _ClassVar[int]
    USE_LONG_TERM_ATTENTION_FIELD_NUMBER: _ClassVar[int]
    SELF_ATTENTION_IN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NUM_ATTENTION_HEADS_FIELD_NUMBER: _ClassVar[int]
    NUM_ATTENTION_LAYERS_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_POSITION_FIELD_NUMBER: _ClassVar[int]
    max_num_context_features: int
    attention_bottleneck_dimension: int
    attention_temperature: float
    context_feature_length: int
    use_self_attention: bool
    use_long_term_attention: bool
    self_attention_in_sequence: bool
    num_attention_heads: int
    num_attention_layers: int
    attention_position: AttentionPosition
    def __init__(self, max_num_context_features: _Optional[int] = ..., attention_bottleneck_dimension: _Optional[int] = ..., attention_temperature: _Optional[float] = ..., context_feature_length: _Optional[int] = ..., use_self_attention: bool = ..., use_long_term_attention: bool = ..., self_attention_in_sequence: bool = ..., num_attention_heads: _Optional[int] = ..., num_attention_layers: _Optional[int] = ..., attention_position: _Optional[_Union[AttentionPosition, str]] = ...) -> None: ...

class FasterRcnnFeatureExtractor(_message.Message):
    __slots__ = ("type", "first_stage_features_stride", "batch_norm_trainable", "conv_hyperparams", "override_base_feature_extractor_hyperparams", "pad_to_multiple", "fpn")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    FIRST_STAGE_FEATURES_STRIDE_FIELD_NUMBER: _ClassVar[int]
    BATCH_NORM_TRAINABLE_FIELD_NUMBER: _ClassVar[int]
    CONV_HYPERPARAMS_FIELD_NUMBER: _ClassVar[int]
    OVERRIDE_BASE_FEATURE_EXTRACTOR_HYPERPARAMS_FIELD_NUMBER: _ClassVar[int]
    PAD_TO_MULTIPLE_FIELD_NUMBER: _ClassVar[int]
    FPN_FIELD_NUMBER: _ClassVar[int]
    type: str
    first_stage_features_stride: int
    batch_norm_trainable: bool
    conv_hyperparams: _hyperparams_pb2.Hyperparams
    override_base_feature_extractor_hyperparams: bool
    pad_to_multiple: int
    fpn: _fpn_pb2.FeaturePyramidNetworks
    def __init__(self, type: _Optional[str] = ..., first_stage_features_stride: _Optional[int] = ..., batch_norm_trainable: bool = ..., conv_hyperparams: _Optional[_Union[_hyperparams_pb2.Hyperparams, _Mapping]] = ..., override_base_feature_extractor_hyperparams: bool = ..., pad_to_multiple: _Optional[int] = ..., fpn: _Optional[_Union[_fpn_pb2.FeaturePyramidNetworks, _Mapping]] = ...) -> None: ...
