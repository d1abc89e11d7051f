"""Placeholders in the parameters of a schedule, which the cluster replaces for each run."""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Mapping
from typing import Any

from detection_core.errors import ConfigError

# A time may be followed by a layout in the notation of Go: `[[ScheduledTime.2006-01-02]]`.
_TIMES = ("ScheduledTime", "CurrentTime")
_NAMES = (*_TIMES, "Index", "RunUUID")
_PATTERN = re.compile(r"\[\[(\w+)(\.[^\]]*)?\]\]")


def check_placeholders(parameters: Mapping[str, Any], where: str) -> None:
    """Refuse placeholders that the cluster would leave as they are.

    Raises:
        ConfigError: naming parameter and placeholder.
    """
    for name, value in parameters.items():
        for found, layout in _PATTERN.findall(value) if isinstance(value, str) else ():
            if found not in _NAMES or (layout and found not in _TIMES):
                near = difflib.get_close_matches(found, _NAMES, n=1)
                hint = f"did you mean [[{near[0]}]]?" if near else f"there are {', '.join(_NAMES)}"
                raise ConfigError(f"{name}: no placeholder [[{found}{layout}]]; {hint}", where=where)


def fill_placeholders(parameters: Mapping[str, Any], now: datetime.datetime) -> dict[str, Any]:
    """Replace the times by now, as the cluster would for a run that is due now.

    Args:
        parameters: of a schedule.
        now: with a time zone.

    Raises:
        ConfigError: for a placeholder that only the cluster can fill.
    """
    text = now.astimezone(datetime.UTC).strftime("%Y%m%d%H%M%S")
    values: dict[str, Any] = {}
    for name, value in parameters.items():
        values[name] = value
        if isinstance(value, str):
            values[name] = re.sub(rf"\[\[({'|'.join(_TIMES)})\]\]", text, value)
            left = _PATTERN.search(values[name])
            if left:
                raise ConfigError(
                    f"only the schedule itself can fill {left.group()}; give --param {name}=VALUE", where=name
                )
    return values
