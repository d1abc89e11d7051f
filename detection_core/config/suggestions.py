"""Suggestions for errors: similar names, and descriptions of a field's values."""

import difflib
from collections.abc import Iterable

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from detection_core.config.legacy.tensorflow_1 import REMOVED_FIELDS
from detection_core.errors import one_line

# Kinds of value, in words, by the C++ type of the descriptor.
_KINDS = {
    FieldDescriptor.CPPTYPE_INT32: f"a whole number from {-(2**31)} to {2**31 - 1}",
    FieldDescriptor.CPPTYPE_UINT32: f"a whole number from 0 to {2**32 - 1}",
    FieldDescriptor.CPPTYPE_INT64: "a whole number",
    FieldDescriptor.CPPTYPE_UINT64: "a whole number, 0 or more",
    FieldDescriptor.CPPTYPE_FLOAT: "a number",
    FieldDescriptor.CPPTYPE_DOUBLE: "a number",
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
    FieldDescriptor.CPPTYPE_STRING: "a text in quotes",
}


def near_names(name: str, known: Iterable[str], *, limit: int = 3) -> list[str]:
    """Return the known names most similar to `name`, nearest first."""
    return difflib.get_close_matches(name, list(known), n=limit, cutoff=0.6)


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a hint at the known name most similar to `name`, or `otherwise`."""
    near = near_names(name, known, limit=1)
    return f"did you mean {near[0]}?" if near else otherwise


def describe_unknown_field(name: str, message: Descriptor) -> str:
    """Describe an unknown field of a message, with similar names."""
    removed = REMOVED_FIELDS.get((message.name, name))
    if removed is not None:
        return f"{message.name} has no field '{name}'; {removed}"
    near = near_names(name, message.fields_by_name)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    owners = sorted(owner.name for owner in _reachable(message) if name in owner.fields_by_name)
    inside = f"{name} is a field of {', '.join(owners[:4])}. " if owners and not near else ""
    has = "It has" if hint or inside else "it has"
    return f"{message.name} has no field '{name}'; {hint}{inside}{has}: {field_list(message)}"


def field_list(message: Descriptor) -> str:
    """Return the names of a message's fields as an English list."""
    return ", ".join(sorted(message.fields_by_name)) or "no fields"


def describe_expected(field: FieldDescriptor) -> str:
    """Describe in words what a single value of the field looks like."""
    if field.enum_type is not None:
        return f"one of {', '.join(value.name for value in field.enum_type.values)}"
    if field.message_type is not None:
        return f"a message {{...}} of {field.message_type.name}: {field_list(field.message_type)}"
    return _KINDS[field.cpp_type]


def describe_wrong_value(field: FieldDescriptor, found: str) -> str:
    """Describe the expected value of a field and the one found."""
    found = one_line(found)
    near = near_names(found, [v.name for v in field.enum_type.values]) if field.enum_type is not None else []
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"expected {describe_expected(field)}, found {found}{hint}"


def _reachable(message: Descriptor) -> list[Descriptor]:
    """Return a message type and every type below it, itself first."""
    found = {message.full_name: message}
    waiting = [message]
    while waiting:
        for field in waiting.pop().fields:
            child = field.message_type
            if child is not None and child.full_name not in found:
                found[child.full_name] = child
                waiting.append(child)
    return list(found.values())
