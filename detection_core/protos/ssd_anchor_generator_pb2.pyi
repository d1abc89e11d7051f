from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class SsdAnchorGenerator(_message.Message):
    __slots__ = ("num_layers", "min_scale", "max_scale", "scales", "aspect_ratios", "interpolated_scale_aspect_ratio", "reduce_boxes_in_lowest_layer", "base_anchor_height", "base_anchor_width", "height_stride", "width_stride", "height_offset", "width_offset")
    NUM_LAYERS_FIELD_NUMBER: _ClassVar[int]
    MIN_SCALE_FIELD_NUMBER: _ClassVar[int]
    MAX_SCALE_FIELD_NUMBER: _ClassVar[int]
    SCALES_FIELD_NUMBER: _ClassVar[int]
    ASPECT_RATIOS_FIELD_NUMBER: _ClassVar[int]
    INTERPOLATED_SCALE_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    REDUCE_BOXES_IN_LOWEST_LAYER_FIELD_NUMBER: _ClassVar[int]
    BASE_ANCHOR_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    BASE_ANCHOR_WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_STRIDE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_STRIDE_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WIDTH_OFFSET_FIELD_NUMBER: _ClassVar[int]
    num_layers: int
    min_scale: float
    max_scale: float
    scales: _containers.RepeatedScalarFieldContainer[float]
    aspect_ratios: _containers.RepeatedScalarFieldContainer[float]
    interpolated_scale_aspect_ratio: float
    reduce_boxes_in_lowest_layer: bool
    base_anchor_height: float
    base_anchor_width: float
    height_stride: _containers.RepeatedScalarFieldContainer[int]
    width_stride: _containers.RepeatedScalarFieldContainer[int]
    height_offset: _containers.RepeatedScalarFieldContainer[int]
    width_offset: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, num_layers: _Optional[int] = ..., min_scale: _Optional[float] = ..., max_scale: _Optional[float] = ..., scales: _Optional[_Iterable[float]] = ..., aspect_ratios: _Optional[_Iterable[float]] = ..., interpolated_scale_aspect_ratio: _Optional[float] = ..., reduce_boxes_in_lowest_layer: bool = ..., base_anchor_height: _Optional[float] = ..., base_anchor_width: _Optional[float] = ..., height_stride: _Optional[_Iterable[int]] = ..., width_stride: _Optional[_Iterable[int]] = ..., height_offset: _Optional[_Iterable[int]] = ..., width_offset: _Optional[_Iterable[int]] = ...) -> None: ...
