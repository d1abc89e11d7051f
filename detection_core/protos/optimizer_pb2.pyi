from detection_core.protos import automl_learning_rate_pb2 as _automl_learning_rate_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Optimizer(_message.Message):
    __slots__ = ("rms_prop_optimizer", "momentum_optimizer", "adam_optimizer", "use_moving_average", "moving_average_decay", "moving_average_from_weights")
    RMS_PROP_OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    ADAM_OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    USE_MOVING_AVERAGE_FIELD_NUMBER: _ClassVar[int]
    MOVING_AVERAGE_DECAY_FIELD_NUMBER: _ClassVar[int]
    MOVING_AVERAGE_FROM_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    rms_prop_optimizer: RMSPropOptimizer
    momentum_optimizer: MomentumOptimizer
    adam_optimizer: AdamOptimizer
    use_moving_average: bool
    moving_average_decay: float
    moving_average_from_weights: bool
    def __init__(self, rms_prop_optimizer: _Optional[_Union[RMSPropOptimizer, _Mapping]] = ..., momentum_optimizer: _Optional[_Union[MomentumOptimizer, _Mapping]] = ..., adam_optimizer: _Optional[_Union[AdamOptimizer, _Mapping]] = ..., use_moving_average: bool = ..., moving_average_decay: _Optional[float] = ..., moving_average_from_weights: bool = ...) -> None: ...

class RMSPropOptimizer(_message.Message):
    __slots__ = ("learning_rate", "momentum_optimizer_value", "decay", "epsilon")
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_OPTIMIZER_VALUE_FIELD_NUMBER: _ClassVar[int]
    DECAY_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    learning_rate: LearningRate
    momentum_optimizer_value: float
    decay: float
    epsilon: float
    def __init__(self, learning_rate: _Optional[_Union[LearningRate, _Mapping]] = ..., momentum_optimizer_value: _Optional[float] = ..., decay: _Optional[float] = ..., epsilon: _Optional[float] = ...) -> None: ...

class MomentumOptimizer(_message.Message):
    __slots__ = ("learning_rate", "momentum_optimizer_value")
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_OPTIMIZER_VALUE_FIELD_NUMBER: _ClassVar[int]
    learning_rate: LearningRate
    momentum_optimizer_value: float
    def __init__(self, learning_rate: _Optional[_Union[LearningRate, _Mapping]] = ..., momentum_optimizer_value: _Optional[float] = ...) -> None: ...

class AdamOptimizer(_message.Message):
    __slots__ = ("learning_rate", "epsilon", "beta_1", "beta_2")
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    BETA_1_FIELD_NUMBER: _ClassVar[int]
    BETA_2_FIELD_NUMBER: _ClassVar[int]
    learning_rate: LearningRate
    epsilon: float
    beta_1: float
    beta_2: float
    def __init__(self, learning_rate: _Optional[_Union[LearningRate, _Mapping]] = ..., epsilon: _Optional[float] = ..., beta_1: _Optional[float] = ..., beta_2: _Optional[float] = ...) -> None: ...

class LearningRate(_message.Message):
    __slots__ = ("constant_learning_rate", "exponential_decay_learning_rate", "manual_step_learning_rate", "cosine_decay_learning_rate", "automl_cosine_learning_rate", "automl_polynomial_learning_rate", "automl_stepwise_learning_rate")
    CONSTANT_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    EXPONENTIAL_DECAY_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    MANUAL_STEP_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    COSINE_DECAY_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    AUTOML_COSINE_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    AUTOML_POLYNOMIAL_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    AUTOML_STEPWISE_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    constant_learning_rate: ConstantLearningRate
    exponential_decay_learning_rate: ExponentialDecayLearningRate
    manual_step_learning_rate: ManualStepLearningRate
    cosine_decay_learning_rate: CosineDecayLearningRate
    automl_cosine_learning_rate: _automl_learning_rate_pb2.AutomlCosineLearningRate
    automl_polynomial_learning_rate: _automl_learning_rate_pb2.AutomlPolynomialLearningRate
    automl_stepwise_learning_rate: _automl_learning_rate_pb2.AutomlStepwiseLearningRate
    def __init__(self, constant_learning_rate: _Optional[_Union[ConstantLearningRate, _Mapping]] = ..., exponential_decay_learning_rate: _Optional[_Union[ExponentialDecayLearningRate, _Mapping]] = ..., manual_step_learning_rate: _Optional[_Union[ManualStepLearningRate, _Mapping]] = ..., cosine_decay_learning_rate: _Optional[_Union[CosineDecayLearningRate, _Mapping]] = ..., automl_cosine_learning_rate: _Optional[_Union[_automl_learning_rate_pb2.AutomlCosineLearningRate, _Mapping]] = ..., automl_polynomial_learning_rate: _Optional[_Union[_automl_learning_rate_pb2.AutomlPolynomialLearningRate, _Mapping]] = ..., automl_stepwise_learning_rate: _Optional[_Union[_automl_learning_rate_pb2.AutomlStepwiseLearningRate, _Mapping]] = ...) -> None: ...

class ConstantLearningRate(_message.Message):
    __slots__ = ("learning_rate",)
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    learning_rate: float
    def __init__(self, learning_rate: _Optional[float] = ...) -> None: ...

class ExponentialDecayLearningRate(_message.Message):
    __slots__ = ("initial_learning_rate", "decay_steps", "decay_factor", "staircase", "burnin_learning_rate", "burnin_steps", "min_learning_rate", "decay_epochs", "burnin_epochs")
    INITIAL_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    DECAY_STEPS_FIELD_NUMBER: _ClassVar[int]
    DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    STAIRCASE_FIELD_NUMBER: _ClassVar[int]
    BURNIN_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    BURNIN_STEPS_FIELD_NUMBER: _ClassVar[int]
    MIN_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    DECAY_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    BURNIN_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    initial_learning_rate: float
    decay_steps: int
    decay_factor: float
    staircase: bool
    burnin_learning_rate: float
    burnin_steps: int
    min_learning_rate: float
    decay_epochs: float
    burnin_epochs: float
    def __init__(self, initial_learning_rate: _Optional[float] = ..., decay_steps: _Optional[int] = ..., decay_factor: _Optional[float] = ..., staircase: bool = ..., burnin_learning_rate: _Optional[float] = ..., burnin_steps: _Optional[int] = ..., min_learning_rate: _Optional[float] = ..., decay_epochs: _Optional[float] = ..., burnin_epochs: _Optional[float] = ...) -> None: ...

class ManualStepLearningRate(_message.Message):
    __slots__ = ("initial_learning_rate", "schedule", "warmup")
    class LearningRateSchedule(_message.Message):
        __slots__ = ("step", "learning_rate", "epoch")
        STEP_FIELD_NUMBER: _ClassVar[int]
        LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
        EPOCH_FIELD_NUMBER: _ClassVar[int]
        step: int
        learning_rate: float
        epoch: float
        def __init__(self, step: _Optional[int] = ..., learning_rate: _Optional[float] = ..., epoch: _Optional[float] = ...) -> None: ...
    INITIAL_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_FIELD_NUMBER: _ClassVar[int]
    initial_learning_rate: float
    schedule: _containers.RepeatedCompositeFieldContainer[ManualStepLearningRate.LearningRateSchedule]
    warmup: bool
    def __init__(self, initial_learning_rate: _Optional[float] = ..., schedule: _Optional[_Iterable[_Union[ManualStepLearningRate.LearningRateSchedule, _Mapping]]] = ..., warmup: bool = ...) -> None: ...

class CosineDecayLearningRate(_message.Message):
    __slots__ = ("learning_rate_base", "total_steps", "warmup_learning_rate", "warmup_steps", "hold_base_rate_steps", "total_epochs", "warmup_epochs", "hold_base_rate_epochs")
    LEARNING_RATE_BASE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    WARMUP_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    HOLD_BASE_RATE_STEPS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    WARMUP_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    HOLD_BASE_RATE_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    learning_rate_base: float
    total_steps: int
    warmup_learning_rate: float
    warmup_steps: int
    hold_base_rate_steps: int
    total_epochs: float
    warmup_epochs: float
    hold_base_rate_epochs: float
    def __init__(self, learning_rate_base: _Optional[float] = ..., total_steps: _Optional[int] = ..., warmup_learning_rate: _Optional[float] = ..., warmup_steps: _Optional[int] = ..., hold_base_rate_steps: _Optional[int] = ..., total_epochs: _Optional[float] = ..., warmup_epochs: _Optional[float] = ..., hold_base_rate_epochs: _Optional[float] = ...) -> None: ...
