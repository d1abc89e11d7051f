from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class KeypointBoxCoder(_message.Message):
    __slots__ = ("num_keypoints", "y_scale", "x_scale", "height_scale", "width_scale")
    NUM_KEYPOINTS_FIELD_NUMBER: _ClassVar[int]
    Y_SCALE_FIELD_NUMBER: _ClassVar[int]
    X_SCALE_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_SCALE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_SCALE_FIELD_NUMBER: _ClassVar[int]
    num_keypoints: int
    y_scale: float
    x_scale: float
    height_scale: float
    width_scale: float
    def __init__(self, num_keypoints: _Optional[int] = ..., y_scale: _Optional[float] = ..., x_scale: _Optional[float] = ..., height_scale: _Optional[float] = ..., width_scale: _Optional[float] = ...) -> None: ...
