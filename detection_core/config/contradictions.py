"""What is missing in a message, and fields of it that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message

from detection_core.config.messages.table import rules_of
from detection_core.config.problems import missing_arm, walk_messages
from detection_core.errors import Problem


def contradictions(message: Message, path: str) -> Iterator[Problem]:
    """Find what is missing or contradictory in one message and what is below it.

    Parts come before what they are parts of, so that a part is right before it is asked what it goes with.

    Args:
        message: any message of a config.
        path: its field path.
    """
    for location, part in walk_messages(message, path, parts_first=True):
        yield from _own(part, location)


def _own(message: Any, path: str) -> Iterator[Problem]:
    """Find what is wrong with the message itself, and with parts that it needs and that are not there."""
    rules = rules_of(message.DESCRIPTOR)
    for oneof in rules.oneofs:
        yield from missing_arm(message, oneof, path, refused=rules.refused)
    for name in rules.parts:
        if not message.HasField(name):
            yield from _own(getattr(message, name), f"{path}.{name}".lstrip("."))
    yield from rules.check(message, path)
