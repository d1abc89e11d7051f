"""The entry of the support tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Support:
    """What becomes of the fields of one message type.

    Attributes:
        reader: module below `detection_core` that reads every field not named in the other attributes;
            several where the fields share the work.
        without_effect: field -> why it changes nothing here.
        refused: field -> why anything but its default is refused, and what to do instead.
        refused_values: field -> name of an enum's value -> why it is refused and what to do instead.
    """

    reader: str | tuple[str, ...] = ()
    without_effect: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refused_values: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)

    @property
    def readers(self) -> tuple[str, ...]:
        """The modules that read the message."""
        return (self.reader,) if isinstance(self.reader, str) else self.reader
