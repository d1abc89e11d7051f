"""Find missing and contradictory fields of messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message

from detection_core.config.messages.table import rules_of
from detection_core.config.problems import missing_arm, walk_messages
from detection_core.errors import Problem


def contradictions(message: Message, path: str) -> Iterator[Problem]:
    """Find missing or contradictory fields in a message and its submessages.

    Submessages come first, so that they are valid before their parent uses them.
    """
    for location, part in walk_messages(message, path, parts_first=True):
        yield from _own(part, location)


def _own(message: Any, path: str) -> Iterator[Problem]:
    """Find problems of the message itself, and missing submessages that it needs."""
    rules = rules_of(message.DESCRIPTOR)
    for oneof in rules.oneofs:
        yield from missing_arm(message, oneof, path, refused=rules.refused)
    for name in rules.parts:
        if not message.HasField(name):
            yield from _own(getattr(message, name), f"{path}.{name}".lstrip("."))
    yield from rules.check(message, path)
