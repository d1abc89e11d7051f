from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class MeanStddevBoxCoder(_message.Message):
    __slots__ = ("stddev",)
    STDDEV_FIELD_NUMBER: _ClassVar[int]
    stddev: float
    def __init__(self, stddev: _Optional[float] = ...) -> None: ...
