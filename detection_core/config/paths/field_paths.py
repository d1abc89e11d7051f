"""Field paths, for example `train_config.data_augmentation_options[0].random_crop_image.min_area`.

An index is a number (negative from the end), or the key of a map field. `+` adds an element, `*` selects
every element. `+2`, `+3` and so on also add elements; they keep keys unique in mappings.
"""

import dataclasses
import difflib
import logging
import re
from collections.abc import Iterator
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from detection_core.config.suggestions import describe_expected, describe_unknown_field
from detection_core.errors import ConfigError

_logger = logging.getLogger(__name__)

_NEW = re.compile(r"\+\d*")
_SEGMENT = re.compile(r"(?P<name>\w+)(?:\[(?P<index>[^\]]*)\])?(?P<end>\.|$)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Segment:
    """A field of a path, with the text between its brackets, or None without brackets."""

    name: str
    index: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """A field to set in a message of the config.

    Attributes:
        container: the message that has the field.
        field: the field.
        index: text between the brackets of the last segment, or None without brackets.
    """

    container: Message
    field: FieldDescriptor
    index: str | None


@dataclasses.dataclass(frozen=True)
class _Walk:
    root: Message
    path: str
    where: str

    def field(self, message: Message, name: str) -> FieldDescriptor:
        descriptor = cast(Descriptor, message.DESCRIPTOR)
        field = descriptor.fields_by_name.get(name)
        if field is not None:
            return field
        near = nearest_paths(self.path, cast(Descriptor, self.root.DESCRIPTOR))
        hint = f"; nearest paths: {', '.join(near)}" if near else ""
        raise self.error(describe_unknown_field(name, descriptor) + hint)

    def error(self, message: str) -> ConfigError:
        return ConfigError(message, where=self.where)

    def children(self, message: Message, step: Segment) -> list[Message]:
        """Return the messages that a segment before the last one leads to."""
        field, index = self.field(message, step.name), step.index
        if not holds_messages(field):
            raise self.error(f"{field.name} holds {describe_expected(field)}, so nothing follows it")
        leave_other_arm(message, field, self.where)
        value = getattr(message, field.name)
        if not field.is_repeated:
            if index is not None:
                raise self.error(f"{field.name} is single; leave out [{index}]")
            return [value]
        if index is None:
            raise self.error(f"{field.name} is a list; write {field.name}[0], [+] or [*]")
        if is_map(field):
            return [value[map_key(field, index, self.where)]]
        return _elements(value, index, self.where)


def _elements(values: Any, index: str, where: str) -> list[Message]:
    if is_new(index):
        return [values.add()]
    if index == "*":
        return list(values)
    return [values[element_index(index, len(values), where)]]


def is_new(index: str | None) -> bool:
    """Tell whether an index adds an element."""
    return index is not None and _NEW.fullmatch(index) is not None


def split_path(path: str, *, where: str) -> list[Segment]:
    """Split a path into its segments. Raises ConfigError when the text is not a path."""
    segments: list[Segment] = []
    position, ended = 0, False
    while not ended:
        match = _SEGMENT.match(path, position)
        if match is None:
            message = f"expected a field path like train_config.batch_size or a.b[0].c, found {path!r}"
            raise ConfigError(message, where=where)
        segments.append(Segment(name=match["name"], index=match["index"]))
        position, ended = match.end(), match["end"] == ""
    return segments


def find_targets(root: Message, path: str, *, where: str) -> list[Target]:
    """Walk a path and return the fields at its end: one, or several if the path contains `[*]`.

    Missing messages on the way are created once one of their fields is set. `root` is changed in place.

    Raises:
        ConfigError: naming an unknown field, with candidates, or a wrong index.
    """
    walk = _Walk(root, path, where)
    *steps, last = split_path(path, where=where)
    containers = [root]
    for step in steps:
        containers = [child for message in containers for child in walk.children(message, step)]
    return [Target(container=m, field=walk.field(m, last.name), index=last.index) for m in containers]


def element_index(index: str, length: int, where: str) -> int:
    """Return the position of an existing element; ConfigError for another text, or a missing element."""
    try:
        number = int(index)
    except ValueError:
        message = f"expected a number, + or * in the brackets, found {index!r}"
        raise ConfigError(message, where=where) from None
    if not -length <= number < length:
        message = f"element {number} does not exist, there are {length}; use [+] to add one"
        raise ConfigError(message, where=where)
    return number % length


def leave_other_arm(message: Message, field: FieldDescriptor, where: str) -> None:
    """Log that setting a field clears another field of the same oneof."""
    oneof = field.containing_oneof
    arm = message.WhichOneof(oneof.name) if oneof is not None else None
    if arm is not None and arm != field.name:
        _logger.warning("%s: %s replaces %s and all that was set in it", where, field.name, arm)


def is_map(field: FieldDescriptor) -> bool:
    """Tell whether a field is a map."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def holds_messages(field: FieldDescriptor) -> bool:
    """Tell whether a field holds messages, also as list elements or map values."""
    value = map_entry(field).fields_by_name["value"] if is_map(field) else field
    return value.message_type is not None


def map_entry(field: FieldDescriptor) -> Descriptor:
    """Return the message type of a map field's entries, with the fields `key` and `value`."""
    return cast(Descriptor, field.message_type)


def map_key(field: FieldDescriptor, text: str, where: str) -> Any:
    """Return a map field's key from the text in brackets, quoted or not; ConfigError for another type."""
    key_field = map_entry(field).fields_by_name["key"]
    text = text.strip("\"'")
    if key_field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return text
    try:
        return int(text)
    except ValueError:
        message = f"expected {describe_expected(key_field)} as key of {field.name}, found {text!r}"
        raise ConfigError(message, where=where) from None


def nearest_paths(path: str, root: Descriptor) -> list[str]:
    """Return up to three schema paths with the same ending as `path`, or else similar ones, nearest first."""
    bare = re.sub(r"\[[^\]]*\]", "", path)
    known = list(_all_paths(root))
    ending = [p for p in known if f".{p}".endswith(f".{bare}")]
    if not ending:
        leaf = bare.rpartition(".")[2]
        ending = [p for p in known if p.rpartition(".")[2] == leaf]
    return difflib.get_close_matches(bare, ending, n=3, cutoff=0.0) or difflib.get_close_matches(
        bare, known, n=3
    )


def _all_paths(message: Descriptor, prefix: str = "") -> Iterator[str]:
    for field in message.fields:
        yield prefix + field.name
        if field.message_type is not None and not is_map(field):
            yield from _all_paths(field.message_type, f"{prefix}{field.name}.")


def walk_messages(
    message: Message, path: str = "", *, parts_first: bool = False
) -> Iterator[tuple[str, Message]]:
    """Yield a message and every present submessage, with their paths.

    `parts_first` yields a message after its submessages, not before.
    """
    if not parts_first:
        yield path, message
    for field, value in message.ListFields():
        if field.message_type is None or is_map(field):
            continue
        children = enumerate(value) if field.is_repeated else [(None, value)]
        for i, child in children:
            yield from walk_messages(child, child_path(path, field, i), parts_first=parts_first)
    if parts_first:
        yield path, message


def child_path(path: str, field: FieldDescriptor, index: int | None = None) -> str:
    """Return the path of a field below a message."""
    bare = f"{path}.{field.name}".lstrip(".")
    return bare if index is None else f"{bare}[{index}]"
