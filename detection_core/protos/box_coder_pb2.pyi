from detection_core.protos import faster_rcnn_box_coder_pb2 as _faster_rcnn_box_coder_pb2
from detection_core.protos import keypoint_box_coder_pb2 as _keypoint_box_coder_pb2
from detection_core.protos import mean_stddev_box_coder_pb2 as _mean_stddev_box_coder_pb2
from detection_core.protos import square_box_coder_pb2 as _square_box_coder_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BoxCoder(_message.Message):
    __slots__ = ("faster_rcnn_box_coder", "mean_stddev_box_coder", "square_box_coder", "keypoint_box_coder")
    FASTER_RCNN_BOX_CODER_FIELD_NUMBER: _ClassVar[int]
    MEAN_STDDEV_BOX_CODER_FIELD_NUMBER: _ClassVar[int]
    SQUARE_BOX_CODER_FIELD_NUMBER: _ClassVar[int]
    KEYPOINT_BOX_CODER_FIELD_NUMBER: _ClassVar[int]
    faster_rcnn_box_coder: _faster_rcnn_box_coder_pb2.FasterRcnnBoxCoder
    mean_stddev_box_coder: _mean_stddev_box_coder_pb2.MeanStddevBoxCoder
    square_box_coder: _square_box_coder_pb2.SquareBoxCoder
    keypoint_box_coder: _keypoint_box_coder_pb2.KeypointBoxCoder
    def __init__(self, faster_rcnn_box_coder: _Optional[_Union[_faster_rcnn_box_coder_pb2.FasterRcnnBoxCoder, _Mapping]] = ..., mean_stddev_box_coder: _Optional[_Union[_mean_stddev_box_coder_pb2.MeanStddevBoxCoder, _Mapping]] = ..., square_box_coder: _Optional[_Union[_square_box_coder_pb2.SquareBoxCoder, _Mapping]] = ..., keypoint_box_coder: _Optional[_Union[_keypoint_box_coder_pb2.KeypointBoxCoder, _Mapping]] = ...) -> None: ...
