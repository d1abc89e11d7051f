"""Walk messages to find problems."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from detection_core.config.paths.field_paths import is_map
from detection_core.errors import Problem


def missing_arm(
    message: Message, oneof: str, path: str, *, refused: Collection[str] = ()
) -> Iterator[Problem]:
    """Yield a problem if no arm of a oneof is set; refused arms are not suggested."""
    if message.WhichOneof(oneof) is None:
        fields = message.DESCRIPTOR.oneofs_by_name[oneof].fields
        arms = [field.name for field in fields if field.name not in refused]
        expected = f"one of {', '.join(arms)}" if len(arms) > 1 else arms[0]
        yield Problem(path=path, message=f"expected {expected}, found none; add the one you want")


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
