from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class BipartiteMatcher(_message.Message):
    __slots__ = ("use_matmul_gather",)
    USE_MATMUL_GATHER_FIELD_NUMBER: _ClassVar[int]
    use_matmul_gather: bool
    def __init__(self, use_matmul_gather: bool = ...) -> None: ...
