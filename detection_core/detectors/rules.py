"""The rules of one message type: what its fields may be, and what becomes of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from detection_core.allowed_values import Range
from detection_core.errors import Problem

Check = Callable[[Any, str], Iterator[Problem]]
"""From a message and its field path to what is wrong with it."""


def no_problems(message: Any, path: str) -> Iterator[Problem]:
    """Find nothing; the check of a message whose fields do not depend on each other."""
    del message, path
    yield from ()


@dataclasses.dataclass(frozen=True)
class Rules:
    """What may be refused of one message type without a tensor, and what becomes of its fields.

    Attributes:
        reader: module below `detection_core` that reads every field not named in `without_effect` or
            `refused`; several where the fields share the work.
        ranges: field -> its interval, which the schema's default has to lie in too: a field whose default
            does not must be set. The first wrong element of a repeated field is reported.
        oneofs: oneofs of which one arm must be set.
        parts: fields that hold a message and must be set, unless everything that message needs has a default.
        check: finds fields that contradict each other, or that no interval describes.
        without_effect: field -> why it changes nothing here.
        refused: field -> why anything but its default is refused, and what to do instead.
        refused_values: field -> name of an enum's value -> why it is refused and what to do instead.
    """

    reader: str | tuple[str, ...] = ()
    ranges: Mapping[str, Range] = dataclasses.field(default_factory=dict)
    oneofs: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    check: Check = no_problems
    without_effect: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refused_values: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)

    @property
    def readers(self) -> tuple[str, ...]:
        """The modules that read the message."""
        return (self.reader,) if isinstance(self.reader, str) else self.reader
