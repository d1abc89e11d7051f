from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class AutomlCosineLearningRate(_message.Message):
    __slots__ = ("learning_rate", "warmup_learning_rate", "warmup_steps", "total_steps")
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    learning_rate: float
    warmup_learning_rate: float
    warmup_steps: int
    total_steps: int
    def __init__(self, learning_rate: _Optional[float] = ..., warmup_learning_rate: _Optional[float] = ..., warmup_steps: _Optional[int] = ..., total_steps: _Optional[int] = ...) -> None: ...

class AutomlPolynomialLearningRate(_message.Message):
    __slots__ = ("learning_rate", "warmup_learning_rate", "warmup_steps", "total_steps", "power")
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    POWER_FIELD_NUMBER: _ClassVar[int]
    learning_rate: float
    warmup_learning_rate: float
    warmup_steps: int
    total_steps: int
    power: float
    def __init__(self, learning_rate: _Optional[float] = ..., warmup_learning_rate: _Optional[float] = ..., warmup_steps: _Optional[int] = ..., total_steps: _Optional[int] = ..., power: _Optional[float] = ...) -> None: ...

class AutomlStepwiseLearningRate(_message.Message):
    __slots__ = ("learning_rate", "warmup_learning_rate", "warmup_steps", "first_drop_step", "second_drop_step")
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    FIRST_DROP_STEP_FIELD_NUMBER: _ClassVar[int]
    SECOND_DROP_STEP_FIELD_NUMBER: _ClassVar[int]
    learning_rate: float
    warmup_learning_rate: float
    warmup_steps: int
    first_drop_step: int
    second_drop_step: int
    def __init__(self, learning_rate: _Optional[float] = ..., warmup_learning_rate: _Optional[float] = ..., warmup_steps: _Optional[int] = ..., first_drop_step: _Optional[int] = ..., second_drop_step: _Optional[int] = ...) -> None: ...
