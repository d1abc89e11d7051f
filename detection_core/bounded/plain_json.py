"""JSON that is parsed at once."""

from __future__ import annotations

import json
from typing import Any

from detection_core.bounded.limits import MAX_JSON_VALUES

_BEGINS = ("[", "{", ",")


def parse_json_text(text: str) -> Any:
    """Parse a JSON text.

    Raises:
        ValueError: when it cannot be parsed, is nested too deeply, or holds too many values.
    """
    check_values(text)
    try:
        return json.loads(text)
    except RecursionError as e:
        raise ValueError("lists or objects nested too deeply") from e


def check_values(text: str) -> None:
    """Refuse a text that may hold more values than `MAX_JSON_VALUES`, before it is parsed.

    Separators inside strings count, too; they are usually few.

    Raises:
        ValueError: when it may hold more.
    """
    count = sum(map(text.count, _BEGINS))
    if count > MAX_JSON_VALUES:
        raise ValueError(f"expected at most {MAX_JSON_VALUES:,} values, found about {count:,}")
