"""The one function that reads a oneof of the configuration and looks its arm up in a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from google.protobuf.message import Message

from detection_core.config.check import check_message
from detection_core.config.messages.table import rules_of
from detection_core.config.problems import missing_arm, raise_first

Built = TypeVar("Built")


def build_oneof(
    message: Message,
    oneof_name: str,
    table: Mapping[str, Callable[[Any], Built]],
    where: str = "",
) -> Built:
    """Check a message and build the arm of its oneof that is set.

    Args:
        message: the message that has the oneof.
        oneof_name: name of the oneof in the schema.
        table: arm name -> builder of the arm's message (or of its value, for an arm that is a scalar); it has
            every arm that the check does not refuse.
        where: path of `message` in the configuration, for errors.

    Returns:
        What the builder of the arm returns.

    Raises:
        ConfigError: when no arm is set, or the check refuses the message or anything below it.
    """
    path = where or message.DESCRIPTOR.name
    check_message(message, path)
    raise_first(missing_arm(message, oneof_name, path, refused=rules_of(message.DESCRIPTOR).refused))
    arm = str(message.WhichOneof(oneof_name))
    return table[arm](getattr(message, arm))
