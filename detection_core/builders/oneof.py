"""The one function that reads a oneof of a checked message and looks its arm up in a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from google.protobuf.message import Message

Built = TypeVar("Built")


def build_oneof(message: Message, oneof_name: str, table: Mapping[str, Callable[[Any], Built]]) -> Built:
    """Build the arm of a checked message's oneof that is set.

    Args:
        message: the message that has the oneof.
        oneof_name: name of the oneof in the schema.
        table: arm name -> builder of the arm's message (or of its value, for an arm that is a scalar); it has
            every arm that the check does not refuse.
    """
    arm = str(message.WhichOneof(oneof_name))
    return table[arm](getattr(message, arm))
