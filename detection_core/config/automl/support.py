"""How a hyper-parameter is declared: its default, the reader of its value, and how it is supported."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

from detection_core.config.automl.value_readers import Reader

Kind = Literal["followed", "without effect", "refused"]


@dataclasses.dataclass(frozen=True)
class Support:
    """How a hyper-parameter is supported.

    Attributes:
        kind: whether it is followed, refused or without effect.
        text: the config field that it sets, or the reason.
        fits: returns whether all hyper-parameters together can be followed; otherwise they are refused with
            `remedy`.
        expected: the condition that `fits` checks, in words.
        remedy: what to do instead.
    """

    kind: Kind
    text: str
    fits: Callable[[Any], bool] = lambda values: True
    expected: str = ""
    remedy: str = ""


def row(default: Any, read: Reader, support: Support | None = None) -> Any:
    """Declare a hyper-parameter; without `support`, the message's field of that name is set."""
    return dataclasses.field(metadata={"default": default, "read": read, "support": support})


def followed(default: Any, read: Reader, text: str) -> Any:
    """Declare a hyper-parameter that sets the config fields in `text`."""
    return row(default, read, Support("followed", text))


def nothing(default: Any, read: Reader, reason: str) -> Any:
    """Declare a hyper-parameter without effect."""
    return row(default, read, Support("without effect", reason))
