"""The rules of one message type: what its fields may be, and what becomes of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from detection_core.config.problems import Problem

Check = Callable[[Any, str], Iterator[Problem]]
"""From a message and its field path to what is wrong with it."""


@dataclasses.dataclass(frozen=True)
class Range:
    """An interval of numbers.

    Attributes:
        low: lower end.
        high: upper end.
        text: the interval in words.
        open_low: whether the lower end is excluded.
        open_high: whether the upper end is excluded.
    """

    low: float
    high: float
    text: str
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        """Tell whether a number lies in the interval."""
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)


def up_to(high: float, low: float = 1) -> Range:
    """Return the interval from `low` to `high`; a value above it is a typing error or exhausts the memory."""
    return Range(low, high, f"a number from {low:,} to {high:,}")


FRACTION = Range(0, 1, "a number from 0 to 1")
POSITIVE_FRACTION = Range(0, 1, "a number above 0, up to 1", open_low=True)
DECAY = Range(0, 1, "a number from 0 to below 1", open_high=True)
POSITIVE = Range(0, math.inf, "a number above 0", open_low=True)
NOT_NEGATIVE = Range(0, math.inf, "0 or more")
SIDE = up_to(16_384)  # pixels of an image
SIDE_OR_NONE = up_to(16_384, 0)
CHANNELS = up_to(16_384, 0)
KERNEL = up_to(64)
LAYERS = up_to(100, 0)
BOXES = up_to(100_000)
FACTOR = Range(0, 16, "a number above 0, up to 16", open_low=True)
LEVEL = up_to(12, 0)
LOSS_SCALE = up_to(2**24)


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
