from detection_core.protos import registered_pb2 as _registered_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Loss(_message.Message):
    __slots__ = ("localization_loss", "classification_loss", "hard_example_miner", "classification_weight", "localization_weight", "random_example_sampler", "equalization_loss", "expected_loss_weights", "min_num_negative_samples", "desired_negative_sampling_ratio")
    class ExpectedLossWeights(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[Loss.ExpectedLossWeights]
        EXPECTED_SAMPLING: _ClassVar[Loss.ExpectedLossWeights]
        REWEIGHTING_UNMATCHED_ANCHORS: _ClassVar[Loss.ExpectedLossWeights]
    NONE: Loss.ExpectedLossWeights
    EXPECTED_SAMPLING: Loss.ExpectedLossWeights
    REWEIGHTING_UNMATCHED_ANCHORS: Loss.ExpectedLossWeights
    class EqualizationLoss(_message.Message):
        __slots__ = ("weight", "exclude_prefixes")
        WEIGHT_FIELD_NUMBER: _ClassVar[int]
        EXCLUDE_PREFIXES_FIELD_NUMBER: _ClassVar[int]
        weight: float
        exclude_prefixes: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, weight: _Optional[float] = ..., exclude_prefixes: _Optional[_Iterable[str]] = ...) -> None: ...
    LOCALIZATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    CLASSIFICATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    HARD_EXAMPLE_MINER_FIELD_NUMBER: _ClassVar[int]
    CLASSIFICATION_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LOCALIZATION_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    RANDOM_EXAMPLE_SAMPLER_FIELD_NUMBER: _ClassVar[int]
    EQUALIZATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LOSS_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    MIN_NUM_NEGATIVE_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    DESIRED_NEGATIVE_SAMPLING_RATIO_FIELD_NUMBER: _ClassVar[int]
    localization_loss: LocalizationLoss
    classification_loss: ClassificationLoss
    hard_example_miner: HardExampleMiner
    classification_weight: float
    localization_weight: float
    random_example_sampler: RandomExampleSampler
    equalization_loss: Loss.EqualizationLoss
    expected_loss_weights: Loss.ExpectedLossWeights
    min_num_negative_samples: float
    desired_negative_sampling_ratio: float
    def __init__(self, localization_loss: _Optional[_Union[LocalizationLoss, _Mapping]] = ..., classification_loss: _Optional[_Union[ClassificationLoss, _Mapping]] = ..., hard_example_miner: _Optional[_Union[HardExampleMiner, _Mapping]] = ..., classification_weight: _Optional[float] = ..., localization_weight: _Optional[float] = ..., random_example_sampler: _Optional[_Union[RandomExampleSampler, _Mapping]] = ..., equalization_loss: _Optional[_Union[Loss.EqualizationLoss, _Mapping]] = ..., expected_loss_weights: _Optional[_Union[Loss.ExpectedLossWeights, str]] = ..., min_num_negative_samples: _Optional[float] = ..., desired_negative_sampling_ratio: _Optional[float] = ...) -> None: ...

class LocalizationLoss(_message.Message):
    __slots__ = ("weighted_l2", "weighted_smooth_l1", "weighted_iou", "l1_localization_loss", "weighted_giou", "registered")
    WEIGHTED_L2_FIELD_NUMBER: _ClassVar[int]
    WEIGHTED_SMOOTH_L1_FIELD_NUMBER: _ClassVar[int]
    WEIGHTED_IOU_FIELD_NUMBER: _ClassVar[int]
    L1_LOCALIZATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTED_GIOU_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    weighted_l2: WeightedL2LocalizationLoss
    weighted_smooth_l1: WeightedSmoothL1LocalizationLoss
    weighted_iou: WeightedIOULocalizationLoss
    l1_localization_loss: L1LocalizationLoss
    weighted_giou: WeightedGIOULocalizationLoss
    registered: _registered_pb2.RegisteredPart
    def __init__(self, weighted_l2: _Optional[_Union[WeightedL2LocalizationLoss, _Mapping]] = ..., weighted_smooth_l1: _Optional[_Union[WeightedSmoothL1LocalizationLoss, _Mapping]] = ..., weighted_iou: _Optional[_Union[WeightedIOULocalizationLoss, _Mapping]] = ..., l1_localization_loss: _Optional[_Union[L1LocalizationLoss, _Mapping]] = ..., weighted_giou: _Optional[_Union[WeightedGIOULocalizationLoss, _Mapping]] = ..., registered: _Optional[_Union[_registered_pb2.RegisteredPart, _Mapping]] = ...) -> None: ...

class WeightedL2LocalizationLoss(_message.Message):
    __slots__ = ("anchorwise_output",)
    ANCHORWISE_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    anchorwise_output: bool
    def __init__(self, anchorwise_output: bool = ...) -> None: ...

class WeightedSmoothL1LocalizationLoss(_message.Message):
    __slots__ = ("anchorwise_output", "delta")
    ANCHORWISE_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    anchorwise_output: bool
    delta: float
    def __init__(self, anchorwise_output: bool = ..., delta: _Optional[float] = ...) -> None: ...

class WeightedIOULocalizationLoss(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class L1LocalizationLoss(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WeightedGIOULocalizationLoss(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClassificationLoss(_message.Message):
    __slots__ = ("weighted_sigmoid", "weighted_softmax", "weighted_logits_softmax", "bootstrapped_sigmoid", "weighted_sigmoid_focal", "penalty_reduced_logistic_focal_loss", "weighted_dice_classification_loss", "registered")
    WEIGHTED_SIGMOID_FIELD_NUMBER: _ClassVar[int]
    WEIGHTED_SOFTMAX_FIELD_NUMBER: _ClassVar[int]
    WEIGHTED_LOGITS_SOFTMAX_FIELD_NUMBER: _ClassVar[int]
    BOOTSTRAPPED_SIGMOID_FIELD_NUMBER: _ClassVar[int]
    WEIGHTED_SIGMOID_FOCAL_FIELD_NUMBER: _ClassVar[int]
    PENALTY_REDUCED_LOGISTIC_FOCAL_LOSS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTED_DICE_CLASSIFICATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    weighted_sigmoid: WeightedSigmoidClassificationLoss
    weighted_softmax: WeightedSoftmaxClassificationLoss
    weighted_logits_softmax: WeightedSoftmaxClassificationAgainstLogitsLoss
    bootstrapped_sigmoid: BootstrappedSigmoidClassificationLoss
    weighted_sigmoid_focal: SigmoidFocalClassificationLoss
    penalty_reduced_logistic_focal_loss: PenaltyReducedLogisticFocalLoss
    weighted_dice_classification_loss: WeightedDiceClassificationLoss
    registered: _registered_pb2.RegisteredPart
    def __init__(self, weighted_sigmoid: _Optional[_Union[WeightedSigmoidClassificationLoss, _Mapping]] = ..., weighted_softmax: _Optional[_Union[WeightedSoftmaxClassificationLoss, _Mapping]] = ..., weighted_logits_softmax: _Optional[_Union[WeightedSoftmaxClassificationAgainstLogitsLoss, _Mapping]] = ..., bootstrapped_sigmoid: _Optional[_Union[BootstrappedSigmoidClassificationLoss, _Mapping]] = ..., weighted_sigmoid_focal: _Optional[_Union[SigmoidFocalClassificationLoss, _Mapping]] = ..., penalty_reduced_logistic_focal_loss: _Optional[_Union[PenaltyReducedLogisticFocalLoss, _Mapping]] = ..., weighted_dice_classification_loss: _Optional[_Union[WeightedDiceClassificationLoss, _Mapping]] = ..., registered: _Optional[_Union[_registered_pb2.RegisteredPart, _Mapping]] = ...) -> None: ...

class WeightedSigmoidClassificationLoss(_message.Message):
    __slots__ = ("anchorwise_output",)
    ANCHORWISE_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    anchorwise_output: bool
    def __init__(self, anchorwise_output: bool = ...) -> None: ...

class SigmoidFocalClassificationLoss(_message.Message):
    __slots__ = ("anchorwise_output", "gamma", "alpha")
    ANCHORWISE_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    anchorwise_output: bool
    gamma: float
    alpha: float
    def __init__(self, anchorwise_output: bool = ..., gamma: _Optional[float] = ..., alpha: _Optional[float] = ...) -> None: ...

class WeightedSoftmaxClassificationLoss(_message.Message):
    __slots__ = ("anchorwise_output", "logit_scale")
    ANCHORWISE_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    LOGIT_SCALE_FIELD_NUMBER: _ClassVar[int]
    anchorwise_output: bool
    logit_scale: float
    def __init__(self, anchorwise_output: bool = ..., logit_scale: _Optional[float] = ...) -> None: ...

class WeightedSoftmaxClassificationAgainstLogitsLoss(_message.Message):
    __slots__ = ("anchorwise_output", "logit_scale")
    ANCHORWISE_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    LOGIT_SCALE_FIELD_NUMBER: _ClassVar[int]
    anchorwise_output: bool
    logit_scale: float
    def __init__(self, anchorwise_output: bool = ..., logit_scale: _Optional[float] = ...) -> None: ...

class BootstrappedSigmoidClassificationLoss(_message.Message):
    __slots__ = ("alpha", "hard_bootstrap", "anchorwise_output")
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    HARD_BOOTSTRAP_FIELD_NUMBER: _ClassVar[int]
    ANCHORWISE_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    alpha: float
    hard_bootstrap: bool
    anchorwise_output: bool
    def __init__(self, alpha: _Optional[float] = ..., hard_bootstrap: bool = ..., anchorwise_output: bool = ...) -> None: ...

class PenaltyReducedLogisticFocalLoss(_message.Message):
    __slots__ = ("alpha", "beta")
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    alpha: float
    beta: float
    def __init__(self, alpha: _Optional[float] = ..., beta: _Optional[float] = ...) -> None: ...

class HardExampleMiner(_message.Message):
    __slots__ = ("num_hard_examples", "iou_threshold", "loss_type", "max_negatives_per_positive", "min_negatives_per_image")
    class LossType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        BOTH: _ClassVar[HardExampleMiner.LossType]
        CLASSIFICATION: _ClassVar[HardExampleMiner.LossType]
        LOCALIZATION: _ClassVar[HardExampleMiner.LossType]
    BOTH: HardExampleMiner.LossType
    CLASSIFICATION: HardExampleMiner.LossType
    LOCALIZATION: HardExampleMiner.LossType
    NUM_HARD_EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    IOU_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    LOSS_TYPE_FIELD_NUMBER: _ClassVar[int]
    MAX_NEGATIVES_PER_POSITIVE_FIELD_NUMBER: _ClassVar[int]
    MIN_NEGATIVES_PER_IMAGE_FIELD_NUMBER: _ClassVar[int]
    num_hard_examples: int
    iou_threshold: float
    loss_type: HardExampleMiner.LossType
    max_negatives_per_positive: int
    min_negatives_per_image: int
    def __init__(self, num_hard_examples: _Optional[int] = ..., iou_threshold: _Optional[float] = ..., loss_type: _Optional[_Union[HardExampleMiner.LossType, str]] = ..., max_negatives_per_positive: _Optional[int] = ..., min_negatives_per_image: _Optional[int] = ...) -> None: ...

class RandomExampleSampler(_message.Message):
    __slots__ = ("positive_sample_fraction",)
    POSITIVE_SAMPLE_FRACTION_FIELD_NUMBER: _ClassVar[int]
    positive_sample_fraction: float
    def __init__(self, positive_sample_fraction: _Optional[float] = ...) -> None: ...

class WeightedDiceClassificationLoss(_message.Message):
    __slots__ = ("squared_normalization",)
    SQUARED_NORMALIZATION_FIELD_NUMBER: _ClassVar[int]
    squared_normalization: bool
    def __init__(self, squared_normalization: bool = ...) -> None: ...
