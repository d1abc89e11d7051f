"""Convert field values from command line text, or from Python values of YAML."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, cast

from google.protobuf import text_encoding
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from detection_core.config.suggestions import describe_wrong_value
from detection_core.errors import ConfigError

_BOOLEANS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
_LARGEST_FLOAT = 3.4028235e38  # of 32 bits
_ELEMENT = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^,]+)""")


def scalar_value(field: FieldDescriptor, value: Any, *, where: str) -> Any:
    """Convert text (quoted or not) or a Python scalar to the type of a field that is not a message.

    Raises:
        ConfigError: naming the values that the field accepts.
    """
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        return _READERS[field.cpp_type](field, text.strip() if not _is_text(field) else text)
    except (ValueError, KeyError):
        raise ConfigError(describe_wrong_value(field, text or "nothing"), where=where) from None


def scalar_list(field: FieldDescriptor, value: Any, *, where: str) -> list[Any]:
    """Convert a value to the elements of a repeated field of numbers, booleans, enums or texts.

    The value is a list, text in brackets, numbers with commas, or a single element.

    Raises:
        ConfigError: naming the values that the field accepts.
    """
    if isinstance(value, list | tuple):
        return [scalar_value(field, element, where=where) for element in value]
    text = str(value).strip()
    bracketed = text.startswith("[") and text.endswith("]")
    if not bracketed and (_is_text(field) or not isinstance(value, str)):
        return [scalar_value(field, value, where=where)]
    elements = [e.strip() for e in _ELEMENT.findall(text[1:-1] if bracketed else text)]
    return [scalar_value(field, element, where=where) for element in elements if element]


def _is_text(field: FieldDescriptor) -> bool:
    return field.cpp_type == FieldDescriptor.CPPTYPE_STRING


def _integer(low: int, high: int) -> Callable[[FieldDescriptor, str], int]:
    def read(field: FieldDescriptor, text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise ValueError(text)
        return number

    return read


def _number(field: FieldDescriptor, text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or abs(number) > _LARGEST_FLOAT:
        raise ValueError(text)
    return number


def _boolean(field: FieldDescriptor, text: str) -> bool:
    return _BOOLEANS[text.lower()]


def _enum(field: FieldDescriptor, text: str) -> int:
    values = cast(EnumDescriptor, field.enum_type)
    if text in values.values_by_name:
        return values.values_by_name[text].number
    return values.values_by_number[int(text)].number


def _text(field: FieldDescriptor, text: str) -> str:
    stripped = text.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "\"'":
        return text_encoding.CUnescape(stripped[1:-1]).decode("utf-8")
    return text


_READERS: dict[int, Callable[[FieldDescriptor, str], Any]] = {
    FieldDescriptor.CPPTYPE_INT32: _integer(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: _integer(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_FLOAT: _number,
    FieldDescriptor.CPPTYPE_BOOL: _boolean,
    FieldDescriptor.CPPTYPE_ENUM: _enum,
    FieldDescriptor.CPPTYPE_STRING: _text,
}
