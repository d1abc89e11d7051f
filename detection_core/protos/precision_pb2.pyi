from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor

class Precision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AUTO: _ClassVar[Precision]
    FLOAT32: _ClassVar[Precision]
    BFLOAT16: _ClassVar[Precision]
    FLOAT16: _ClassVar[Precision]
AUTO: Precision
FLOAT32: Precision
BFLOAT16: Precision
FLOAT16: Precision
