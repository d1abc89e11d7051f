from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class FeaturePyramidNetworks(_message.Message):
    __slots__ = ("min_level", "max_level", "additional_layer_depth")
    MIN_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MAX_LEVEL_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_LAYER_DEPTH_FIELD_NUMBER: _ClassVar[int]
    min_level: int
    max_level: int
    additional_layer_depth: int
    def __init__(self, min_level: _Optional[int] = ..., max_level: _Optional[int] = ..., additional_layer_depth: _Optional[int] = ...) -> None: ...

class BidirectionalFeaturePyramidNetworks(_message.Message):
    __slots__ = ("min_level", "max_level", "num_iterations", "num_filters", "combine_method")
    MIN_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MAX_LEVEL_FIELD_NUMBER: _ClassVar[int]
    NUM_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    NUM_FILTERS_FIELD_NUMBER: _ClassVar[int]
    COMBINE_METHOD_FIELD_NUMBER: _ClassVar[int]
    min_level: int
    max_level: int
    num_iterations: int
    num_filters: int
    combine_method: str
    def __init__(self, min_level: _Optional[int] = ..., max_level: _Optional[int] = ..., num_iterations: _Optional[int] = ..., num_filters: _Optional[int] = ..., combine_method: _Optional[str] = ...) -> None: ...
