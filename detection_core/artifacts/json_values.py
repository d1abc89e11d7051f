"""Convert JSON values to dataclasses and back, by the types of their fields.

Unknown fields of a newer version are ignored; missing ones take the field's default. Any other mismatch is
refused with its path. Values are not converted: int stays int and float stays float, so rewriting gives the
same bytes. pydantic would write 3.0 for the int 3 of a float field, and the image of the steps lacks it.
"""

import collections.abc
import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import Any

from detection_core.errors import shorten

JSON_KEY = "json key"
"""Metadata key: the field's key in JSON, if it is not a Python name."""

_OMITTED = "omitted by default"
OMIT_DEFAULT = types.MappingProxyType({_OMITTED: True})
"""Metadata of a field that is not written if it has its default."""


class JsonFault(ValueError):
    """A JSON value of an unexpected type."""


def json_key(field: dataclasses.Field[Any]) -> str:
    """Return a field's key in JSON."""
    return str(field.metadata.get(JSON_KEY, field.name))


def is_optional(field: dataclasses.Field[Any]) -> bool:
    """Return whether a field is optional in JSON."""
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


@functools.cache
def field_types(cls: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields by name."""
    return typing.get_type_hints(cls)


def encode(value: Any) -> Any:
    """Return dataclasses, mappings and sequences as values for `json.dumps`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            json_key(field): encode(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not (field.metadata.get(_OMITTED) and _has_default(value, field))
        }
    if isinstance(value, collections.abc.Mapping):
        return {name: encode(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [encode(inner) for inner in value]
    return value


def _has_default(value: Any, field: dataclasses.Field[Any]) -> bool:
    factory = field.default_factory
    default = field.default if factory is dataclasses.MISSING else factory()
    return bool(getattr(value, field.name) == default)


def decode(expected: Any, value: Any, at: str = "") -> Any:
    """Convert a JSON value to a type.

    Args:
        expected: a dataclass, str, int, float, bool, Any, a list, a tuple, a mapping from str, or a union.
        value: result of `json.loads`.
        at: path in the file, for errors.

    Raises:
        JsonFault: naming the path, the expected type and the value found.
    """
    if expected is Any:
        return value
    if dataclasses.is_dataclass(expected):
        return _decode_object(typing.cast(type, expected), value, at)
    origin = typing.get_origin(expected)
    if origin in (types.UnionType, typing.Union):
        return _decode_union(typing.get_args(expected), value, at)
    if origin in _CONTAINERS:
        return _CONTAINERS[origin](typing.get_args(expected), value, at)
    if not _SCALARS[expected](value):
        raise _fault(at, _NAMES[expected], value)
    return value


def _decode_object(cls: type, value: Any, at: str) -> Any:
    if not isinstance(value, dict):
        raise _fault(at, "an object", value)
    found, hints = {}, field_types(cls)
    for field in dataclasses.fields(cls):
        key = json_key(field)
        if key in value:
            found[field.name] = decode(hints[field.name], value[key], f"{at}.{key}" if at else key)
        elif not is_optional(field):
            raise JsonFault(f"expected {key}{f' in {at}' if at else ''}, found none")
    try:
        return cls(**found)
    except JsonFault:
        raise
    except ValueError as error:
        raise JsonFault(f"{at}: {error}" if at else str(error)) from error


def _decode_union(members: tuple[Any, ...], value: Any, at: str) -> Any:
    if value is None and types.NoneType in members:
        return None
    faults = []
    for member in members:
        if member is not types.NoneType:
            try:
                return decode(member, value, at)
            except JsonFault as fault:
                faults.append(fault)
    raise faults[0]


def _decode_list(members: tuple[Any, ...], value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise _fault(at, "a list", value)
    return [decode(members[0], inner, f"{at}[{i}]") for i, inner in enumerate(value)]


def _decode_tuple(members: tuple[Any, ...], value: Any, at: str) -> tuple[Any, ...]:
    if members[-1] is Ellipsis:
        return tuple(_decode_list(members, value, at))
    if not isinstance(value, list) or len(value) != len(members):
        raise _fault(at, f"a list of {len(members)}", value)
    return tuple(decode(m, v, f"{at}[{i}]") for i, (m, v) in enumerate(zip(members, value, strict=True)))


def _decode_mapping(members: tuple[Any, ...], value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _fault(at, "an object", value)
    return {name: decode(members[1], inner, f"{at}.{name}" if at else name) for name, inner in value.items()}


def _fault(at: str, expected: str, value: Any) -> JsonFault:
    return JsonFault(f"expected {expected}{f' as {at}' if at else ''}, found {shorten(value)}")


_CONTAINERS: dict[Any, Callable[[tuple[Any, ...], Any, str], Any]] = {
    list: _decode_list,
    tuple: _decode_tuple,
    dict: _decode_mapping,
    collections.abc.Mapping: _decode_mapping,
    collections.abc.Sequence: _decode_list,
}
_SCALARS: dict[Any, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: lambda value: isinstance(value, int) and not isinstance(value, bool),
    float: lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
_NAMES: dict[Any, str] = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
