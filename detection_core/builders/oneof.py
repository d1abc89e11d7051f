"""Dispatch on a oneof of a checked message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from google.protobuf.message import Message

Built = TypeVar("Built")


def build_oneof(message: Message, oneof_name: str, table: Mapping[str, Callable[[Any], Built]]) -> Built:
    """Build the field of a checked message's oneof that is set.

    Args:
        message: the message with the oneof.
        oneof_name: name of the oneof in the schema.
        table: field name -> builder of the field's message, or of its value for a scalar. It has every field
            that the check accepts.
    """
    arm = str(message.WhichOneof(oneof_name))
    return table[arm](getattr(message, arm))
