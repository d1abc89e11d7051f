from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Validation(_message.Message):
    __slots__ = ("every_steps", "every_minutes", "max_images", "metric", "keep_best", "patience", "min_gain", "weights", "tile_size", "tile_overlap")
    class Weights(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        BEST: _ClassVar[Validation.Weights]
        LAST: _ClassVar[Validation.Weights]
    BEST: Validation.Weights
    LAST: Validation.Weights
    class Metric(_message.Message):
        __slots__ = ("name", "weight")
        NAME_FIELD_NUMBER: _ClassVar[int]
        WEIGHT_FIELD_NUMBER: _ClassVar[int]
        name: str
        weight: float
        def __init__(self, name: _Optional[str] = ..., weight: _Optional[float] = ...) -> None: ...
    EVERY_STEPS_FIELD_NUMBER: _ClassVar[int]
    EVERY_MINUTES_FIELD_NUMBER: _ClassVar[int]
    MAX_IMAGES_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    KEEP_BEST_FIELD_NUMBER: _ClassVar[int]
    PATIENCE_FIELD_NUMBER: _ClassVar[int]
    MIN_GAIN_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    TILE_SIZE_FIELD_NUMBER: _ClassVar[int]
    TILE_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    every_steps: int
    every_minutes: float
    max_images: int
    metric: _containers.RepeatedCompositeFieldContainer[Validation.Metric]
    keep_best: int
    patience: int
    min_gain: float
    weights: Validation.Weights
    tile_size: int
    tile_overlap: float
    def __init__(self, every_steps: _Optional[int] = ..., every_minutes: _Optional[float] = ..., max_images: _Optional[int] = ..., metric: _Optional[_Iterable[_Union[Validation.Metric, _Mapping]]] = ..., keep_best: _Optional[int] = ..., patience: _Optional[int] = ..., min_gain: _Optional[float] = ..., weights: _Optional[_Union[Validation.Weights, str]] = ..., tile_size: _Optional[int] = ..., tile_overlap: _Optional[float] = ...) -> None: ...
