"""The one function that reads a oneof of the configuration and looks its arm up in a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from google.protobuf.message import Message

from detection_core.errors import ConfigError

Built = TypeVar("Built")


def build_oneof(
    message: Message,
    oneof_name: str,
    table: Mapping[str, Callable[[Any], Built]],
    where: str = "",
    unsupported: Mapping[str, str] | None = None,
) -> Built:
    """Build the arm of a oneof that is set.

    Args:
        message: the message that has the oneof.
        oneof_name: name of the oneof in the schema.
        table: arm name -> builder of the arm's message (or of its value, for an arm that is a scalar).
        where: path of `message` in the configuration, for errors.
        unsupported: arm name -> why it is refused and what to use instead.

    Returns:
        What the builder of the arm returns.

    Raises:
        ConfigError: when no arm is set, when it is refused, or when its builder refuses its values; an
            error of the builder that has no place of its own gets the arm's path.
    """
    arm = message.WhichOneof(oneof_name)
    path = where or message.DESCRIPTOR.name
    if arm is None:
        raise ConfigError(
            f"expected one of {', '.join(sorted(table))}, found none; set one of them", where=path
        )
    arm_path = f"{path}.{arm}"
    if arm not in table:
        reason = (unsupported or {}).get(arm, "it is not known here")
        raise ConfigError(
            f"expected one of {', '.join(sorted(table))}, found {arm}: {reason}", where=arm_path
        )
    try:
        return table[arm](getattr(message, arm))
    except ConfigError as error:
        if error.where:
            raise
        raise ConfigError(error.message, where=arm_path) from error
