"""Build the parts of checked messages: by the arm of a oneof, or from fields of the same names."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from google.protobuf.message import Message

Built = TypeVar("Built")


def oneof_builder(name: str, table: Mapping[str, Callable[[Any], Built]]) -> Callable[[Any], Built]:
    """Return a builder of checked messages, by the field of the oneof `name` that is set.

    The table maps each field that the check accepts to the builder of its message, or of its scalar value.
    """

    def build(message: Message) -> Built:
        arm = str(message.WhichOneof(name))
        return table[arm](getattr(message, arm))

    return build


def from_fields(make: Callable[..., Built], message: Message, **given: Any) -> Built:
    """Call a class or function with the message's fields that have the names of its parameters.

    A list becomes a tuple, and an enum's value its name. `given` are further arguments, and those that
    replace a field.
    """
    fields = message.DESCRIPTOR.fields_by_name
    names = [name for name in inspect.signature(make).parameters if name in fields and name not in given]
    return make(**{name: _plain(fields[name], getattr(message, name)) for name in names}, **given)


def same_fields(make: Callable[..., Built]) -> Callable[[Message], Built]:
    """Return a builder that calls `from_fields`."""
    return lambda message: from_fields(make, message)


def _plain(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    return tuple(value) if field.is_repeated else value
