"""The rules of one message type: allowed values of its fields, and which fields have an effect."""

import dataclasses
import operator
import string
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from google.protobuf.message import Message

from detection_core import allowed_values
from detection_core.allowed_values import Range, up_to
from detection_core.bounded.plain_yaml import module_table
from detection_core.errors import Problem

Check = Callable[[Any, str], Iterator[Problem]]
"""Maps a message and its field path to its problems."""


def no_problems(message: Any, path: str) -> Iterator[Problem]:
    """Find nothing; for messages whose fields do not depend on each other."""
    yield from ()


RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "above": operator.gt,
    "below": operator.lt,
    "equals": operator.eq,
    "one_of": lambda value, others: value in others,
    "not_one_of": lambda value, others: value not in others,
    "beside": lambda value, other: bool(value and other),
    "if": lambda value, other: bool(other),
    "unless": lambda value, other: not other,
    "unpaired_with": lambda value, other: bool(value) != bool(other),
    "no_divisor_of": lambda value, other: bool(value and other % value),
}
"""Relations of a field to a constant or to another field; `if` and `unless` read the other one only."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """Checks of one message type that need no tensor, and the fields' effects.

    Attributes:
        ranges: field -> its interval, which must include the schema's default: otherwise the field must be
            set. The first wrong element of a repeated field is reported.
        oneofs: oneofs of which one arm must be set.
        parts: message fields that must be set, unless everything that message needs has a default.
        check: finds fields that contradict each other, or that need more than an interval.
        without_effect: field -> why it changes nothing here.
        refused: field -> why anything but its default is refused, and what to do instead.
        refused_values: field -> name of an enum's value -> why it is refused and what to do instead.
        wrong_if: field -> relations, all of which a wrong value has, and the `message` about it. The operand
            of a relation is a constant or the path of a field. `{path}` in a message is a field's value.
    """

    ranges: Mapping[str, Range] = dataclasses.field(default_factory=dict)
    oneofs: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    check: Check = no_problems
    without_effect: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refused_values: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    wrong_if: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


def read_rules(module: str, checks: Mapping[str, Check]) -> dict[str, Rules]:
    """Return the rules of the YAML table beside a module, and of the messages that have a check."""
    table = module_table(module)
    ranges = vars(allowed_values) | {name: Range(**entry) for name, entry in table.get("ranges", {}).items()}
    messages: Mapping[str, Mapping[str, Any]] = table["messages"]
    return {
        name: _rules(messages.get(name, {}), ranges, checks.get(name, no_problems))
        for name in {**messages, **checks}
    }


def _rules(entry: Mapping[str, Any], known: Mapping[str, Any], check: Check) -> Rules:
    lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
    ranges = {
        field: known[limits] if isinstance(limits, str) else up_to(limits[1], limits[0])
        for field, limits in entry.get("ranges", {}).items()
    }
    return Rules(**{**entry, **lists, "ranges": ranges}, check=check)


def wrong_fields(message: Any, path: str, rules: Rules) -> Iterator[Problem]:
    """Find the fields of a message that have all relations of their entry in `Rules.wrong_if`.

    Fields that the message lacks are skipped, because rules by field name hold for every message.
    """
    for field, entry in rules.wrong_if.items():
        if field.split(".")[0] not in message.DESCRIPTOR.fields_by_name:
            continue
        value = field_value(message, field)
        relations = [(RELATIONS[name], operand) for name, operand in entry.items() if name != "message"]
        if all(holds(value, _operand(message, operand)) for holds, operand in relations):
            text = _MessageText().vformat(entry["message"], (message,), {})
            yield Problem(path=f"{path}.{field}".lstrip("."), message=text)


def field_value(message: Any, path: str) -> Any:
    """Return a field's value for a relation; the field's path starts at the message.

    A list gives its number of values, a message with a oneof the name of the arm or None, and another message
    whether it is set.
    """
    *parents, name = path.split(".")
    for parent in parents:
        message = getattr(message, parent)
    field, value = message.DESCRIPTOR.fields_by_name[name], getattr(message, name)
    if field.is_repeated:
        return len(value)
    if field.message_type is None:
        return value
    oneofs = field.message_type.oneofs
    return value.WhichOneof(oneofs[0].name) if oneofs else message.HasField(name)


def _operand(message: Any, operand: Any) -> Any:
    if isinstance(operand, list):
        return [_operand(message, element) for element in operand]
    is_path = isinstance(operand, str) and operand.split(".")[0] in message.DESCRIPTOR.fields_by_name
    return field_value(message, operand) if is_path else operand


class _MessageText(string.Formatter):
    """Formats a text in which `{path}` is the value of a message's field."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        return field_value(args[0], field_name), field_name


def missing_arm(
    message: Message, oneof: str, path: str, *, refused: Collection[str] = ()
) -> Iterator[Problem]:
    """Yield a problem if no arm of a oneof is set; refused arms are not suggested."""
    if message.WhichOneof(oneof) is None:
        fields = message.DESCRIPTOR.oneofs_by_name[oneof].fields
        arms = [field.name for field in fields if field.name not in refused]
        expected = f"one of {', '.join(arms)}" if len(arms) > 1 else arms[0]
        yield Problem(path=path, message=f"expected {expected}, found none; add the one you want")


def message_name(descriptor: Any) -> str:
    """Return a message type's full name without the package, as in `Loss.EqualizationLoss`."""
    return str(descriptor.full_name).removeprefix(f"{descriptor.file.package}.")
