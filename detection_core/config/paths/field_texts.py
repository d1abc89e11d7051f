"""List every field that a config sets by its path, for users and tracking servers."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from detection_core.config.paths.field_paths import is_map
from detection_core.config.problems import child_path, walk_messages


def field_texts(config: Message) -> dict[str, str]:
    """Return path to value of every set field, in schema order.

    The paths are valid for overrides; a message without fields has the value `{}`.
    """
    found = {}
    for path, message in walk_messages(config):
        if path and not message.ListFields():
            found[path] = "{}"
        for field, value in message.ListFields():
            here = child_path(path, field)
            if is_map(field):
                found |= {f"{here}[{key}]": str(entry).strip() for key, entry in value.items()}
            elif field.message_type is None:
                texts = [_text(field, each) for each in (value if field.is_repeated else [value])]
                found[here] = f"[{', '.join(texts)}]" if field.is_repeated else texts[0]
    return found


def _text(field: FieldDescriptor, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.9g}" if isinstance(value, float) else str(value)
