"""Parameters of steps that hold JSON, because an artifact store and a command line know plain text only."""

from __future__ import annotations

import json
from typing import Any

from detection_core import errors
from detection_core.errors import ConfigError

_SHOWN = 300


def parse_json(text: str, where: str, expected: str = "a JSON object") -> Any:
    """Read a parameter that holds JSON.

    Args:
        text: the parameter.
        where: its name.
        expected: what it should hold, for the message.

    Raises:
        ConfigError: when it is no JSON, or nested deeper or with longer numbers than Python reads.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ConfigError(f"expected {expected}, found {shorten(text)} ({e})", where=where) from e


def shorten(value: Any) -> str:
    """Return a value as a message shows it: whole, or its beginning."""
    return errors.shorten(value, _SHOWN)
