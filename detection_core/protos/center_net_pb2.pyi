from detection_core.protos import image_resizer_pb2 as _image_resizer_pb2
from detection_core.protos import losses_pb2 as _losses_pb2
from detection_core.protos import post_processing_pb2 as _post_processing_pb2
from detection_core.protos import preprocessor_pb2 as _preprocessor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CenterNet(_message.Message):
    __slots__ = ("num_classes", "feature_extractor", "image_resizer", "use_depthwise", "compute_heatmap_sparse", "object_detection_task", "object_center_params", "keypoint_label_map_path", "keypoint_estimation_task", "mask_estimation_task", "densepose_estimation_task", "track_estimation_task", "temporal_offset_task", "deepmac_mask_estimation", "post_processing")
    class PredictionHeadParams(_message.Message):
        __slots__ = ("num_filters", "kernel_sizes")
        NUM_FILTERS_FIELD_NUMBER: _ClassVar[int]
        KERNEL_SIZES_FIELD_NUMBER: _ClassVar[int]
        num_filters: _containers.RepeatedScalarFieldContainer[int]
        kernel_sizes: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, num_filters: _Optional[_Iterable[int]] = ..., kernel_sizes: _Optional[_Iterable[int]] = ...) -> None: ...
    class ObjectDetection(_message.Message):
        __slots__ = ("task_loss_weight", "offset_loss_weight", "scale_loss_weight", "localization_loss", "scale_head_params", "offset_head_params")
        TASK_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        OFFSET_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        SCALE_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        LOCALIZATION_LOSS_FIELD_NUMBER: _ClassVar[int]
        SCALE_HEAD_PARAMS_FIELD_NUMBER: _ClassVar[int]
        OFFSET_HEAD_PARAMS_FIELD_NUMBER: _ClassVar[int]
        task_loss_weight: float
        offset_loss_weight: float
        scale_loss_weight: float
        localization_loss: _losses_pb2.LocalizationLoss
        scale_head_params: CenterNet.PredictionHeadParams
        offset_head_params: CenterNet.PredictionHeadParams
        def __init__(self, task_loss_weight: _Optional[float] = ..., offset_loss_weight: _Optional[float] = ..., scale_loss_weight: _Optional[float] = ..., localization_loss: _Optional[_Union[_losses_pb2.LocalizationLoss, _Mapping]] = ..., scale_head_params: _Optional[_Union[CenterNet.PredictionHeadParams, _Mapping]] = ..., offset_head_params: _Optional[_Union[CenterNet.PredictionHeadParams, _Mapping]] = ...) -> None: ...
    class ObjectCenterParams(_message.Message):
        __slots__ = ("object_center_loss_weight", "classification_loss", "heatmap_bias_init", "min_box_overlap_iou", "max_box_predictions", "use_labeled_classes", "keypoint_weights_for_center", "center_head_params")
        OBJECT_CENTER_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        CLASSIFICATION_LOSS_FIELD_NUMBER: _ClassVar[int]
        HEATMAP_BIAS_INIT_FIELD_NUMBER: _ClassVar[int]
        MIN_BOX_OVERLAP_IOU_FIELD_NUMBER: _ClassVar[int]
        MAX_BOX_PREDICTIONS_FIELD_NUMBER: _ClassVar[int]
        USE_LABELED_CLASSES_FIELD_NUMBER: _ClassVar[int]
        KEYPOINT_WEIGHTS_FOR_CENTER_FIELD_NUMBER: _ClassVar[int]
        CENTER_HEAD_PARAMS_FIELD_NUMBER: _ClassVar[int]
        object_center_loss_weight: float
        classification_loss: _losses_pb2.ClassificationLoss
        heatmap_bias_init: float
        min_box_overlap_iou: float
        max_box_predictions: int
        use_labeled_classes: bool
        keypoint_weights_for_center: _containers.RepeatedScalarFieldContainer[float]
        center_head_params: CenterNet.PredictionHeadParams
        def __init__(self, object_center_loss_weight: _Optional[float] = ..., classification_loss: _Optional[_Union[_losses_pb2.ClassificationLoss, _Mapping]] = ..., heatmap_bias_init: _Optional[float] = ..., min_box_overlap_iou: _Optional[float] = ..., max_box_predictions: _Optional[int] = ..., use_labeled_classes: bool = ..., keypoint_weights_for_center: _Optional[_Iterable[float]] = ..., center_head_params: _Optional[_Union[CenterNet.PredictionHeadParams, _Mapping]] = ...) -> None: ...
    class KeypointEstimation(_message.Message):
        __slots__ = ("task_name", "task_loss_weight", "loss", "keypoint_class_name", "keypoint_label_to_std", "keypoint_regression_loss_weight", "keypoint_heatmap_loss_weight", "keypoint_offset_loss_weight", "heatmap_bias_init", "keypoint_candidate_score_threshold", "num_candidates_per_keypoint", "peak_max_pool_kernel_size", "unmatched_keypoint_score", "box_scale", "candidate_search_scale", "candidate_ranking_mode", "score_distance_offset", "score_distance_multiplier", "std_dev_multiplier", "offset_peak_radius", "per_keypoint_offset", "predict_depth", "per_keypoint_depth", "keypoint_depth_loss_weight", "clip_out_of_frame_keypoints", "rescore_instances", "rescoring_threshold", "heatmap_head_params", "offset_head_params", "regress_head_params")
        class KeypointLabelToStdEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: float
            def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
        TASK_NAME_FIELD_NUMBER: _ClassVar[int]
        TASK_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        LOSS_FIELD_NUMBER: _ClassVar[int]
        KEYPOINT_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
        KEYPOINT_LABEL_TO_STD_FIELD_NUMBER: _ClassVar[int]
        KEYPOINT_REGRESSION_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        KEYPOINT_HEATMAP_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        KEYPOINT_OFFSET_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        HEATMAP_BIAS_INIT_FIELD_NUMBER: _ClassVar[int]
        KEYPOINT_CANDIDATE_SCORE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
        NUM_CANDIDATES_PER_KEYPOINT_FIELD_NUMBER: _ClassVar[int]
        PEAK_MAX_POOL_KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
        UNMATCHED_KEYPOINT_SCORE_FIELD_NUMBER: _ClassVar[int]
        BOX_SCALE_FIELD_NUMBER: _ClassVar[int]
        CANDIDATE_SEARCH_SCALE_FIELD_NUMBER: _ClassVar[int]
        CANDIDATE_RANKING_MODE_FIELD_NUMBER: _ClassVar[int]
        SCORE_DISTANCE_OFFSET_FIELD_NUMBER: _ClassVar[int]
        SCORE_DISTANCE_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
        STD_DEV_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
        OFFSET_PEAK_RADIUS_FIELD_NUMBER: _ClassVar[int]
        PER_KEYPOINT_OFFSET_FIELD_NUMBER: _ClassVar[int]
        PREDICT_DEPTH_FIELD_NUMBER: _ClassVar[int]
        PER_KEYPOINT_DEPTH_FIELD_NUMBER: _ClassVar[int]
        KEYPOINT_DEPTH_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        CLIP_OUT_OF_FRAME_KEYPOINTS_FIELD_NUMBER: _ClassVar[int]
        RESCORE_INSTANCES_FIELD_NUMBER: _ClassVar[int]
        RESCORING_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
        HEATMAP_HEAD_PARAMS_FIELD_NUMBER: _ClassVar[int]
        OFFSET_HEAD_PARAMS_FIELD_NUMBER: _ClassVar[int]
        REGRESS_HEAD_PARAMS_FIELD_NUMBER: _ClassVar[int]
        task_name: str
        task_loss_weight: float
        loss: _losses_pb2.Loss
        keypoint_class_name: str
        keypoint_label_to_std: _containers.ScalarMap[str, float]
        keypoint_regression_loss_weight: float
        keypoint_heatmap_loss_weight: float
        keypoint_offset_loss_weight: float
        heatmap_bias_init: float
        keypoint_candidate_score_threshold: float
        num_candidates_per_keypoint: int
        peak_max_pool_kernel_size: int
        unmatched_keypoint_score: float
        box_scale: float
        candidate_search_scale: float
        candidate_ranking_mode: str
        score_distance_offset: float
        score_distance_multiplier: float
        std_dev_multiplier: float
        offset_peak_radius: int
        per_keypoint_offset: bool
        predict_depth: bool
        per_keypoint_depth: bool
        keypoint_depth_loss_weight: float
        clip_out_of_frame_keypoints: bool
        rescore_instances: bool
        rescoring_threshold: float
        heatmap_head_params: CenterNet.PredictionHeadParams
        offset_head_params: CenterNet.PredictionHeadParams
        regress_head_params: CenterNet.PredictionHeadParams
        def __init__(self, task_name: _Optional[str] = ..., task_loss_weight: _Optional[float] = ..., loss: _Optional[_Union[_losses_pb2.Loss, _Mapping]] = ..., keypoint_class_name: _Optional[str] = ..., keypoint_label_to_std: _Optional[_Mapping[str, float]] = ..., keypoint_regression_loss_weight: _Optional[float] = ..., keypoint_heatmap_loss_weight: _Optional[float] = ..., keypoint_offset_loss_weight: _Optional[float] = ..., heatmap_bias_init: _Optional[float] = ..., keypoint_candidate_score_threshold: _Optional[float] = ..., num_candidates_per_keypoint: _Optional[int] = ..., peak_max_pool_kernel_size: _Optional[int] = ..., unmatched_keypoint_score: _Optional[float] = ..., box_scale: _Optional[float] = ..., candidate_search_scale: _Optional[float] = ..., candidate_ranking_mode: _Optional[str] = ..., score_distance_offset: _Optional[float] = ..., score_distance_multiplier: _Optional[float] = ..., std_dev_multiplier: _Optional[float] = ..., offset_peak_radius: _Optional[int] = ..., per_keypoint_offset: bool = ..., predict_depth: bool = ..., per_keypoint_depth: bool = ..., keypoint_depth_loss_weight: _Optional[float] = ..., clip_out_of_frame_keypoints: bool = ..., rescore_instances: bool = ..., rescoring_threshold: _Optional[float] = ..., heatmap_head_params: _Optional[_Union[CenterNet.PredictionHeadParams, _Mapping]] = ..., offset_head_params: _Optional[_Union[CenterNet.PredictionHeadParams, _Mapping]] = ..., regress_head_params: _Optional[_Union[CenterNet.PredictionHeadParams, _Mapping]] = ...) -> None: ...
    class MaskEstimation(_message.Message):
        __slots__ = ("task_loss_weight", "classification_loss", "mask_height", "mask_width", "score_threshold", "heatmap_bias_init", "mask_head_params")
        TASK_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        CLASSIFICATION_LOSS_FIELD_NUMBER: _ClassVar[int]
        MASK_HEIGHT_FIELD_NUMBER: _ClassVar[int]
        MASK_WIDTH_FIELD_NUMBER: _ClassVar[int]
        SCORE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
        HEATMAP_BIAS_INIT_FIELD_NUMBER: _ClassVar[int]
        MASK_HEAD_PARAMS_FIELD_NUMBER: _ClassVar[int]
        task_loss_weight: float
        classification_loss: _losses_pb2.ClassificationLoss
        mask_height: int
        mask_width: int
        score_threshold: float
        heatmap_bias_init: float
        mask_head_params: CenterNet.PredictionHeadParams
        def __init__(self, task_loss_weight: _Optional[float] = ..., classification_loss: _Optional[_Union[_losses_pb2.ClassificationLoss, _Mapping]] = ..., mask_height: _Optional[int] = ..., mask_width: _Optional[int] = ..., score_threshold: _Optional[float] = ..., heatmap_bias_init: _Optional[float] = ..., mask_head_params: _Optional[_Union[CenterNet.PredictionHeadParams, _Mapping]] = ...) -> None: ...
    class DensePoseEstimation(_message.Message):
        __slots__ = ("task_loss_weight", "class_id", "loss", "num_parts", "part_loss_weight", "coordinate_loss_weight", "upsample_to_input_res", "heatmap_bias_init")
        TASK_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        CLASS_ID_FIELD_NUMBER: _ClassVar[int]
        LOSS_FIELD_NUMBER: _ClassVar[int]
        NUM_PARTS_FIELD_NUMBER: _ClassVar[int]
        PART_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        COORDINATE_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        UPSAMPLE_TO_INPUT_RES_FIELD_NUMBER: _ClassVar[int]
        HEATMAP_BIAS_INIT_FIELD_NUMBER: _ClassVar[int]
        task_loss_weight: float
        class_id: int
        loss: _losses_pb2.Loss
        num_parts: int
        part_loss_weight: float
        coordinate_loss_weight: float
        upsample_to_input_res: bool
        heatmap_bias_init: float
        def __init__(self, task_loss_weight: _Optional[float] = ..., class_id: _Optional[int] = ..., loss: _Optional[_Union[_losses_pb2.Loss, _Mapping]] = ..., num_parts: _Optional[int] = ..., part_loss_weight: _Optional[float] = ..., coordinate_loss_weight: _Optional[float] = ..., upsample_to_input_res: bool = ..., heatmap_bias_init: _Optional[float] = ...) -> None: ...
    class TrackEstimation(_message.Message):
        __slots__ = ("task_loss_weight", "num_track_ids", "reid_embed_size", "num_fc_layers", "classification_loss")
        TASK_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        NUM_TRACK_IDS_FIELD_NUMBER: _ClassVar[int]
        REID_EMBED_SIZE_FIELD_NUMBER: _ClassVar[int]
        NUM_FC_LAYERS_FIELD_NUMBER: _ClassVar[int]
        CLASSIFICATION_LOSS_FIELD_NUMBER: _ClassVar[int]
        task_loss_weight: float
        num_track_ids: int
        reid_embed_size: int
        num_fc_layers: int
        classification_loss: _losses_pb2.ClassificationLoss
        def __init__(self, task_loss_weight: _Optional[float] = ..., num_track_ids: _Optional[int] = ..., reid_embed_size: _Optional[int] = ..., num_fc_layers: _Optional[int] = ..., classification_loss: _Optional[_Union[_losses_pb2.ClassificationLoss, _Mapping]] = ...) -> None: ...
    class TemporalOffsetEstimation(_message.Message):
        __slots__ = ("task_loss_weight", "localization_loss")
        TASK_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        LOCALIZATION_LOSS_FIELD_NUMBER: _ClassVar[int]
        task_loss_weight: float
        localization_loss: _losses_pb2.LocalizationLoss
        def __init__(self, task_loss_weight: _Optional[float] = ..., localization_loss: _Optional[_Union[_losses_pb2.LocalizationLoss, _Mapping]] = ...) -> None: ...
    class DeepMACMaskEstimation(_message.Message):
        __slots__ = ("classification_loss", "task_loss_weight", "dim", "pixel_embedding_dim", "allowed_masked_classes_ids", "mask_size", "mask_num_subsamples", "use_xy", "network_type", "use_instance_embedding", "num_init_channels", "predict_full_resolution_masks", "postprocess_crop_size", "max_roi_jitter_ratio", "jitter_mode", "box_consistency_loss_weight")
        CLASSIFICATION_LOSS_FIELD_NUMBER: _ClassVar[int]
        TASK_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        DIM_FIELD_NUMBER: _ClassVar[int]
        PIXEL_EMBEDDING_DIM_FIELD_NUMBER: _ClassVar[int]
        ALLOWED_MASKED_CLASSES_IDS_FIELD_NUMBER: _ClassVar[int]
        MASK_SIZE_FIELD_NUMBER: _ClassVar[int]
        MASK_NUM_SUBSAMPLES_FIELD_NUMBER: _ClassVar[int]
        USE_XY_FIELD_NUMBER: _ClassVar[int]
        NETWORK_TYPE_FIELD_NUMBER: _ClassVar[int]
        USE_INSTANCE_EMBEDDING_FIELD_NUMBER: _ClassVar[int]
        NUM_INIT_CHANNELS_FIELD_NUMBER: _ClassVar[int]
        PREDICT_FULL_RESOLUTION_MASKS_FIELD_NUMBER: _ClassVar[int]
        POSTPROCESS_CROP_SIZE_FIELD_NUMBER: _ClassVar[int]
        MAX_ROI_JITTER_RATIO_FIELD_NUMBER: _ClassVar[int]
        JITTER_MODE_FIELD_NUMBER: _ClassVar[int]
        BOX_CONSISTENCY_LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
        classification_loss: _losses_pb2.ClassificationLoss
        task_loss_weight: float
        dim: int
        pixel_embedding_dim: int
        allowed_masked_classes_ids: _containers.RepeatedScalarFieldContainer[int]
        mask_size: int
        mask_num_subsamples: int
        use_xy: bool
        network_type: str
        use_instance_embedding: bool
        num_init_channels: int
        predict_full_resolution_masks: bool
        postprocess_crop_size: int
        max_roi_jitter_ratio: float
        jitter_mode: _preprocessor_pb2.RandomJitterBoxes.JitterMode
        box_consistency_loss_weight: float
        def __init__(self, classification_loss: _Optional[_Union[_losses_pb2.ClassificationLoss, _Mapping]] = ..., task_loss_weight: _Optional[float] = ..., dim: _Optional[int] = ..., pixel_embedding_dim: _Optional[int] = ..., allowed_masked_classes_ids: _Optional[_Iterable[int]] = ..., mask_size: _Optional[int] = ..., mask_num_subsamples: _Optional[int] = ..., use_xy: bool = ..., network_type: _Optional[str] = ..., use_instance_embedding: bool = ..., num_init_channels: _Optional[int] = ..., predict_full_resolution_masks: bool = ..., postprocess_crop_size: _Optional[int] = ..., max_roi_jitter_ratio: _Optional[float] = ..., jitter_mode: _Optional[_Union[_preprocessor_pb2.RandomJitterBoxes.JitterMode, str]] = ..., box_consistency_loss_weight: _Optional[float] = ...) -> None: ...
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    FEATURE_EXTRACTOR_FIELD_NUMBER: _ClassVar[int]
    IMAGE_RESIZER_FIELD_NUMBER: _ClassVar[int]
    USE_DEPTHWISE_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_HEATMAP_SPARSE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_DETECTION_TASK_FIELD_NUMBER: _ClassVar[int]
    OBJECT_CENTER_PARAMS_FIELD_NUMBER: _ClassVar[int]
    KEYPOINT_LABEL_MAP_PATH_FIELD_NUMBER: _ClassVar[int]
    KEYPOINT_ESTIMATION_TASK_FIELD_NUMBER: _ClassVar[int]
    MASK_ESTIMATION_TASK_FIELD_NUMBER: _ClassVar[int]
    DENSEPOSE_ESTIMATION_TASK_FIELD_NUMBER: _ClassVar[int]
    TRACK_ESTIMATION_TASK_FIELD_NUMBER: _ClassVar[int]
    TEMPORAL_OFFSET_TASK_FIELD_NUMBER: _ClassVar[int]
    DEEPMAC_MASK_ESTIMATION_FIELD_NUMBER: _ClassVar[int]
    POST_PROCESSING_FIELD_NUMBER: _ClassVar[int]
    num_classes: int
    feature_extractor: CenterNetFeatureExtractor
    image_resizer: _image_resizer_pb2.ImageResizer
    use_depthwise: bool
    compute_heatmap_sparse: bool
    object_detection_task: CenterNet.ObjectDetection
    object_center_params: CenterNet.ObjectCenterParams
    keypoint_label_map_path: str
    keypoint_estimation_task: _containers.RepeatedCompositeFieldContainer[CenterNet.KeypointEstimation]
    mask_estimation_task: CenterNet.MaskEstimation
    densepose_estimation_task: CenterNet.DensePoseEstimation
    track_estimation_task: CenterNet.TrackEstimation
    temporal_offset_task: CenterNet.TemporalOffsetEstimation
    deepmac_mask_estimation: CenterNet.DeepMACMaskEstimation
    post_processing: _post_processing_pb2.PostProcessing
    def __init__(self, num_classes: _Optional[int] = ..., feature_extractor: _Optional[_Union[CenterNetFeatureExtractor, _Mapping]] = ..., image_resizer: _Optional[_Union[_image_resizer_pb2.ImageResizer, _Mapping]] = ..., use_depthwise: bool = ..., compute_heatmap_sparse: bool = ..., object_detection_task: _Optional[_Union[CenterNet.ObjectDetection, _Mapping]] = ..., object_center_params: _Optional[_Union[CenterNet.ObjectCenterParams, _Mapping]] = ..., keypoint_label_map_path: _Optional[str] = ..., keypoint_estimation_task: _Optional[_Iterable[_Union[CenterNet.KeypointEstimation, _Mapping]]] = ..., mask_estimation_task: _Optional[_Union[CenterNet.MaskEstimation, _Mapping]] = ..., densepose_estimation_task: _Optional[_Union[CenterNet.DensePoseEstimation, _Mapping]] = ..., track_estimation_task: _Optional[_Union[CenterNet.TrackEstimation, _Mapping]] = ..., temporal_offset_task: _Optional[_Union[CenterNet.TemporalOffsetEstimation, _Mapping]] = ..., deepmac_mask_estimation: _Optional[_Union[CenterNet.DeepMACMaskEstimation, _Mapping]] = ..., post_processing: _Optional[_Union[_post_processing_pb2.PostProcessing, _Mapping]] = ...) -> None: ...

class CenterNetFeatureExtractor(_message.Message):
    __slots__ = ("type", "channel_means", "channel_stds", "bgr_ordering", "use_depthwise", "depth_multiplier", "use_separable_conv", "upsampling_interpolation")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_MEANS_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_STDS_FIELD_NUMBER: _ClassVar[int]
    BGR_ORDERING_FIELD_NUMBER: _ClassVar[int]
    USE_DEPTHWISE_FIELD_NUMBER: _ClassVar[int]
    DEPTH_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    USE_SEPARABLE_CONV_FIELD_NUMBER: _ClassVar[int]
    UPSAMPLING_INTERPOLATION_FIELD_NUMBER: _ClassVar[int]
    type: str
    channel_means: _containers.RepeatedScalarFieldContainer[float]
    channel_stds: _containers.RepeatedScalarFieldContainer[float]
    bgr_ordering: bool
    use_depthwise: bool
    depth_multiplier: float
    use_separable_conv: bool
    upsampling_interpolation: str
    def __init__(self, type: _Optional[str] = ..., channel_means: _Optional[_Iterable[float]] = ..., channel_stds: _Optional[_Iterable[float]] = ..., bgr_ordering: bool = ..., use_depthwise: bool = ..., depth_multiplier: _Optional[float] = ..., use_separable_conv: bool = ..., upsampling_interpolation: _Optional[str] = ...) -> None: ...
