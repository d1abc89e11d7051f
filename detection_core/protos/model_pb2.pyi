from detection_core.protos import center_net_pb2 as _center_net_pb2
from detection_core.protos import efficientdet_pb2 as _efficientdet_pb2
from detection_core.protos import faster_rcnn_pb2 as _faster_rcnn_pb2
from detection_core.protos import image_resizer_pb2 as _image_resizer_pb2
from detection_core.protos import ssd_pb2 as _ssd_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DetectionModel(_message.Message):
    __slots__ = ("faster_rcnn", "ssd", "experimental_model", "center_net", "efficientdet")
    FASTER_RCNN_FIELD_NUMBER: _ClassVar[int]
    SSD_FIELD_NUMBER: _ClassVar[int]
    EXPERIMENTAL_MODEL_FIELD_NUMBER: _ClassVar[int]
    CENTER_NET_FIELD_NUMBER: _ClassVar[int]
    EFFICIENTDET_FIELD_NUMBER: _ClassVar[int]
    faster_rcnn: _faster_rcnn_pb2.FasterRcnn
    ssd: _ssd_pb2.Ssd
    experimental_model: ExperimentalModel
    center_net: _center_net_pb2.CenterNet
    efficientdet: _efficientdet_pb2.EfficientDet
    def __init__(self, faster_rcnn: _Optional[_Union[_faster_rcnn_pb2.FasterRcnn, _Mapping]] = ..., ssd: _Optional[_Union[_ssd_pb2.Ssd, _Mapping]] = ..., experimental_model: _Optional[_Union[ExperimentalModel, _Mapping]] = ..., center_net: _Optional[_Union[_center_net_pb2.CenterNet, _Mapping]] = ..., efficientdet: _Optional[_Union[_efficientdet_pb2.EfficientDet, _Mapping]] = ...) -> None: ...

class ExperimentalModel(_message.Message):
    __slots__ = ("name", "num_classes", "image_resizer", "options")
    class OptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    IMAGE_RESIZER_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    num_classes: int
    image_resizer: _image_resizer_pb2.ImageResizer
    options: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., num_classes: _Optional[int] = ..., image_resizer: _Optional[_Union[_image_resizer_pb2.ImageResizer, _Mapping]] = ..., options: _Optional[_Mapping[str, str]] = ...) -> None: ...
