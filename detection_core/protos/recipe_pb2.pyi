from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Mosaic(_message.Message):
    __slots__ = ("probability", "height", "width", "min_fraction", "fit", "min_visible", "per_channel_pad_value")
    class Fit(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STRETCH: _ClassVar[Mosaic.Fit]
        KEEP_ASPECT_RATIO: _ClassVar[Mosaic.Fit]
    STRETCH: Mosaic.Fit
    KEEP_ASPECT_RATIO: Mosaic.Fit
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    MIN_FRACTION_FIELD_NUMBER: _ClassVar[int]
    FIT_FIELD_NUMBER: _ClassVar[int]
    MIN_VISIBLE_FIELD_NUMBER: _ClassVar[int]
    PER_CHANNEL_PAD_VALUE_FIELD_NUMBER: _ClassVar[int]
    probability: float
    height: int
    width: int
    min_fraction: float
    fit: Mosaic.Fit
    min_visible: float
    per_channel_pad_value: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, probability: _Optional[float] = ..., height: _Optional[int] = ..., width: _Optional[int] = ..., min_fraction: _Optional[float] = ..., fit: _Optional[_Union[Mosaic.Fit, str]] = ..., min_visible: _Optional[float] = ..., per_channel_pad_value: _Optional[_Iterable[float]] = ...) -> None: ...

class MixUp(_message.Message):
    __slots__ = ("probability", "alpha")
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    probability: float
    alpha: float
    def __init__(self, probability: _Optional[float] = ..., alpha: _Optional[float] = ...) -> None: ...

class CopyPaste(_message.Message):
    __slots__ = ("probability", "object_probability", "scale_min", "scale_max", "min_visible")
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    OBJECT_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    SCALE_MIN_FIELD_NUMBER: _ClassVar[int]
    SCALE_MAX_FIELD_NUMBER: _ClassVar[int]
    MIN_VISIBLE_FIELD_NUMBER: _ClassVar[int]
    probability: float
    object_probability: float
    scale_min: float
    scale_max: float
    min_visible: float
    def __init__(self, probability: _Optional[float] = ..., object_probability: _Optional[float] = ..., scale_min: _Optional[float] = ..., scale_max: _Optional[float] = ..., min_visible: _Optional[float] = ...) -> None: ...

class LargeScaleJitter(_message.Message):
    __slots__ = ("height", "width", "scale_min", "scale_max", "min_visible", "per_channel_pad_value")
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SCALE_MIN_FIELD_NUMBER: _ClassVar[int]
    SCALE_MAX_FIELD_NUMBER: _ClassVar[int]
    MIN_VISIBLE_FIELD_NUMBER: _ClassVar[int]
    PER_CHANNEL_PAD_VALUE_FIELD_NUMBER: _ClassVar[int]
    height: int
    width: int
    scale_min: float
    scale_max: float
    min_visible: float
    per_channel_pad_value: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, height: _Optional[int] = ..., width: _Optional[int] = ..., scale_min: _Optional[float] = ..., scale_max: _Optional[float] = ..., min_visible: _Optional[float] = ..., per_channel_pad_value: _Optional[_Iterable[float]] = ...) -> None: ...

class MultiScale(_message.Message):
    __slots__ = ("scale", "steps_per_scale")
    SCALE_FIELD_NUMBER: _ClassVar[int]
    STEPS_PER_SCALE_FIELD_NUMBER: _ClassVar[int]
    scale: _containers.RepeatedScalarFieldContainer[float]
    steps_per_scale: int
    def __init__(self, scale: _Optional[_Iterable[float]] = ..., steps_per_scale: _Optional[int] = ...) -> None: ...
