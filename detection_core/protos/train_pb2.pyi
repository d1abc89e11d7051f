from detection_core.protos import monitoring_pb2 as _monitoring_pb2
from detection_core.protos import optimizer_pb2 as _optimizer_pb2
from detection_core.protos import precision_pb2 as _precision_pb2
from detection_core.protos import preprocessor_pb2 as _preprocessor_pb2
from detection_core.protos import recipe_pb2 as _recipe_pb2
from detection_core.protos import validation_pb2 as _validation_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CheckpointVersion(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN: _ClassVar[CheckpointVersion]
    V1: _ClassVar[CheckpointVersion]
    V2: _ClassVar[CheckpointVersion]
UNKNOWN: CheckpointVersion
V1: CheckpointVersion
V2: CheckpointVersion

class TrainConfig(_message.Message):
    __slots__ = ("batch_size", "data_augmentation_options", "sync_replicas", "keep_checkpoint_every_n_hours", "optimizer", "gradient_clipping_by_norm", "fine_tune_checkpoint", "fine_tune_checkpoint_type", "fine_tune_checkpoint_version", "from_detection_checkpoint", "load_all_detection_checkpoint_vars", "run_fine_tune_checkpoint_dummy_computation", "num_steps", "startup_delay_steps", "bias_grad_multiplier", "update_trainable_variables", "freeze_variables", "replicas_to_aggregate", "batch_queue_capacity", "num_batch_queue_threads", "prefetch_queue_capacity", "merge_multiple_label_boxes", "use_multiclass_scores", "add_regularization_loss", "max_number_of_boxes", "unpad_groundtruth_tensors", "retain_original_images", "use_bfloat16", "summarize_gradients", "gradient_clipping_by_variable_norm", "validation", "mixing_pool_size", "close_mosaic_steps", "num_epochs", "close_mosaic_epochs", "backbone_rate_decay", "freeze_backbone_stages", "class_weight_power", "multi_scale", "gradient_accumulation_steps", "seed", "deterministic", "monitoring", "max_skipped_updates", "precision", "initial_loss_scale")
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    DATA_AUGMENTATION_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    SYNC_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    KEEP_CHECKPOINT_EVERY_N_HOURS_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_CLIPPING_BY_NORM_FIELD_NUMBER: _ClassVar[int]
    FINE_TUNE_CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    FINE_TUNE_CHECKPOINT_TYPE_FIELD_NUMBER: _ClassVar[int]
    FINE_TUNE_CHECKPOINT_VERSION_FIELD_NUMBER: _ClassVar[int]
    FROM_DETECTION_CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    LOAD_ALL_DETECTION_CHECKPOINT_VARS_FIELD_NUMBER: _ClassVar[int]
    RUN_FINE_TUNE_CHECKPOINT_DUMMY_COMPUTATION_FIELD_NUMBER: _ClassVar[int]
    NUM_STEPS_FIELD_NUMBER: _ClassVar[int]
    STARTUP_DELAY_STEPS_FIELD_NUMBER: _ClassVar[int]
    BIAS_GRAD_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TRAINABLE_VARIABLES_FIELD_NUMBER: _ClassVar[int]
    FREEZE_VARIABLES_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_TO_AGGREGATE_FIELD_NUMBER: _ClassVar[int]
    BATCH_QUEUE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    NUM_BATCH_QUEUE_THREADS_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_QUEUE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MERGE_MULTIPLE_LABEL_BOXES_FIELD_NUMBER: _ClassVar[int]
    USE_MULTICLASS_SCORES_FIELD_NUMBER: _ClassVar[int]
    ADD_REGULARIZATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    MAX_NUMBER_OF_BOXES_FIELD_NUMBER: _ClassVar[int]
    UNPAD_GROUNDTRUTH_TENSORS_FIELD_NUMBER: _ClassVar[int]
    RETAIN_ORIGINAL_IMAGES_FIELD_NUMBER: _ClassVar[int]
    USE_BFLOAT16_FIELD_NUMBER: _ClassVar[int]
    SUMMARIZE_GRADIENTS_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_CLIPPING_BY_VARIABLE_NORM_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_FIELD_NUMBER: _ClassVar[int]
    MIXING_POOL_SIZE_FIELD_NUMBER: _ClassVar[int]
    CLOSE_MOSAIC_STEPS_FIELD_NUMBER: _ClassVar[int]
    NUM_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    CLOSE_MOSAIC_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    BACKBONE_RATE_DECAY_FIELD_NUMBER: _ClassVar[int]
    FREEZE_BACKBONE_STAGES_FIELD_NUMBER: _ClassVar[int]
    CLASS_WEIGHT_POWER_FIELD_NUMBER: _ClassVar[int]
    MULTI_SCALE_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_ACCUMULATION_STEPS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    DETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    MONITORING_FIELD_NUMBER: _ClassVar[int]
    MAX_SKIPPED_UPDATES_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    INITIAL_LOSS_SCALE_FIELD_NUMBER: _ClassVar[int]
    batch_size: int
    data_augmentation_options: _containers.RepeatedCompositeFieldContainer[_preprocessor_pb2.PreprocessingStep]
    sync_replicas: bool
    keep_checkpoint_every_n_hours: float
    optimizer: _optimizer_pb2.Optimizer
    gradient_clipping_by_norm: float
    fine_tune_checkpoint: str
    fine_tune_checkpoint_type: str
    fine_tune_checkpoint_version: CheckpointVersion
    from_detection_checkpoint: bool
    load_all_detection_checkpoint_vars: bool
    run_fine_tune_checkpoint_dummy_computation: bool
    num_steps: int
    startup_delay_steps: float
    bias_grad_multiplier: float
    update_trainable_variables: _containers.RepeatedScalarFieldContainer[str]
    freeze_variables: _containers.RepeatedScalarFieldContainer[str]
    replicas_to_aggregate: int
    batch_queue_capacity: int
    num_batch_queue_threads: int
    prefetch_queue_capacity: int
    merge_multiple_label_boxes: bool
    use_multiclass_scores: bool
    add_regularization_loss: bool
    max_number_of_boxes: int
    unpad_groundtruth_tensors: bool
    retain_original_images: bool
    use_bfloat16: bool
    summarize_gradients: bool
    gradient_clipping_by_variable_norm: float
    validation: _validation_pb2.Validation
    mixing_pool_size: int
    close_mosaic_steps: int
    num_epochs: float
    close_mosaic_epochs: float
    backbone_rate_decay: float
    freeze_backbone_stages: int
    class_weight_power: float
    multi_scale: _recipe_pb2.MultiScale
    gradient_accumulation_steps: int
    seed: int
    deterministic: bool
    monitoring: _monitoring_pb2.Monitoring
    max_skipped_updates: int
    precision: _precision_pb2.Precision
    initial_loss_scale: float
    def __init__(self, batch_size: _Optional[int] = ..., data_augmentation_options: _Optional[_Iterable[_Union[_preprocessor_pb2.PreprocessingStep, _Mapping]]] = ..., sync_replicas: bool = ..., keep_checkpoint_every_n_hours: _Optional[float] = ..., optimizer: _Optional[_Union[_optimizer_pb2.Optimizer, _Mapping]] = ..., gradient_clipping_by_norm: _Optional[float] = ..., fine_tune_checkpoint: _Optional[str] = ..., fine_tune_checkpoint_type: _Optional[str] = ..., fine_tune_checkpoint_version: _Optional[_Union[CheckpointVersion, str]] = ..., from_detection_checkpoint: bool = ..., load_all_detection_checkpoint_vars: bool = ..., run_fine_tune_checkpoint_dummy_computation: bool = ..., num_steps: _Optional[int] = ..., startup_delay_steps: _Optional[float] = ..., bias_grad_multiplier: _Optional[float] = ..., update_trainable_variables: _Optional[_Iterable[str]] = ..., freeze_variables: _Optional[_Iterable[str]] = ..., replicas_to_aggregate: _Optional[int] = ..., batch_queue_capacity: _Optional[int] = ..., num_batch_queue_threads: _Optional[int] = ..., prefetch_queue_capacity: _Optional[int] = ..., merge_multiple_label_boxes: bool = ..., use_multiclass_scores: bool = ..., add_regularization_loss: bool = ..., max_number_of_boxes: _Optional[int] = ..., unpad_groundtruth_tensors: bool = ..., retain_original_images: bool = ..., use_bfloat16: bool = ..., summarize_gradients: bool = ..., gradient_clipping_by_variable_norm: _Optional[float] = ..., validation: _Optional[_Union[_validation_pb2.Validation, _Mapping]] = ..., mixing_pool_size: _Optional[int] = ..., close_mosaic_steps: _Optional[int] = ..., num_epochs: _Optional[float] = ..., close_mosaic_epochs: _Optional[float] = ..., backbone_rate_decay: _Optional[float] = ..., freeze_backbone_stages: _Optional[int] = ..., class_weight_power: _Optional[float] = ..., multi_scale: _Optional[_Union[_recipe_pb2.MultiScale, _Mapping]] = ..., gradient_accumulation_steps: _Optional[int] = ..., seed: _Optional[int] = ..., deterministic: bool = ..., monitoring: _Optional[_Union[_monitoring_pb2.Monitoring, _Mapping]] = ..., max_skipped_updates: _Optional[int] = ..., precision: _Optional[_Union[_precision_pb2.Precision, str]] = ..., initial_loss_scale: _Optional[float] = ...) -> None: ...
