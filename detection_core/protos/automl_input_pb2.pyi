from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class AutomlResizer(_message.Message):
    __slots__ = ("height", "width", "per_channel_pad_value")
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    PER_CHANNEL_PAD_VALUE_FIELD_NUMBER: _ClassVar[int]
    height: int
    width: int
    per_channel_pad_value: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, height: _Optional[int] = ..., width: _Optional[int] = ..., per_channel_pad_value: _Optional[_Iterable[float]] = ...) -> None: ...

class AutomlScaleJitter(_message.Message):
    __slots__ = ("height", "width", "target_height", "target_width", "scale_min", "scale_max", "per_channel_pad_value")
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    TARGET_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    TARGET_WIDTH_FIELD_NUMBER: _ClassVar[int]
    SCALE_MIN_FIELD_NUMBER: _ClassVar[int]
    SCALE_MAX_FIELD_NUMBER: _ClassVar[int]
    PER_CHANNEL_PAD_VALUE_FIELD_NUMBER: _ClassVar[int]
    height: int
    width: int
    target_height: int
    target_width: int
    scale_min: float
    scale_max: float
    per_channel_pad_value: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, height: _Optional[int] = ..., width: _Optional[int] = ..., target_height: _Optional[int] = ..., target_width: _Optional[int] = ..., scale_min: _Optional[float] = ..., scale_max: _Optional[float] = ..., per_channel_pad_value: _Optional[_Iterable[float]] = ...) -> None: ...

class AutomlGridMask(_message.Message):
    __slots__ = ("threshold", "ratio", "rotate", "gridmask_size_ratio")
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    RATIO_FIELD_NUMBER: _ClassVar[int]
    ROTATE_FIELD_NUMBER: _ClassVar[int]
    GRIDMASK_SIZE_RATIO_FIELD_NUMBER: _ClassVar[int]
    threshold: float
    ratio: float
    rotate: float
    gridmask_size_ratio: float
    def __init__(self, threshold: _Optional[float] = ..., ratio: _Optional[float] = ..., rotate: _Optional[float] = ..., gridmask_size_ratio: _Optional[float] = ...) -> None: ...

class DropCrowdBoxes(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
