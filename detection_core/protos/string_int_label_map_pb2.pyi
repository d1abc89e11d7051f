from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LVISFrequency(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNSPECIFIED: _ClassVar[LVISFrequency]
    FREQUENT: _ClassVar[LVISFrequency]
    COMMON: _ClassVar[LVISFrequency]
    RARE: _ClassVar[LVISFrequency]
UNSPECIFIED: LVISFrequency
FREQUENT: LVISFrequency
COMMON: LVISFrequency
RARE: LVISFrequency

class StringIntLabelMapItem(_message.Message):
    __slots__ = ("name", "id", "display_name", "keypoints", "ancestor_ids", "descendant_ids", "frequency", "instance_count")
    class KeypointMap(_message.Message):
        __slots__ = ("id", "label")
        ID_FIELD_NUMBER: _ClassVar[int]
        LABEL_FIELD_NUMBER: _ClassVar[int]
        id: int
        label: str
        def __init__(self, id: _Optional[int] = ..., label: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    KEYPOINTS_FIELD_NUMBER: _ClassVar[int]
    ANCESTOR_IDS_FIELD_NUMBER: _ClassVar[int]
    DESCENDANT_IDS_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    id: int
    display_name: str
    keypoints: _containers.RepeatedCompositeFieldContainer[StringIntLabelMapItem.KeypointMap]
    ancestor_ids: _containers.RepeatedScalarFieldContainer[int]
    descendant_ids: _containers.RepeatedScalarFieldContainer[int]
    frequency: LVISFrequency
    instance_count: int
    def __init__(self, name: _Optional[str] = ..., id: _Optional[int] = ..., display_name: _Optional[str] = ..., keypoints: _Optional[_Iterable[_Union[StringIntLabelMapItem.KeypointMap, _Mapping]]] = ..., ancestor_ids: _Optional[_Iterable[int]] = ..., descendant_ids: _Optional[_Iterable[int]] = ..., frequency: _Optional[_Union[LVISFrequency, str]] = ..., instance_count: _Optional[int] = ...) -> None: ...

class StringIntLabelMap(_message.Message):
    __slots__ = ("item",)
    ITEM_FIELD_NUMBER: _ClassVar[int]
    item: _containers.RepeatedCompositeFieldContainer[StringIntLabelMapItem]
    def __init__(self, item: _Optional[_Iterable[_Union[StringIntLabelMapItem, _Mapping]]] = ...) -> None: ...
