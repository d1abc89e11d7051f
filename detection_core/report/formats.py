"""Readable numbers and times."""

from __future__ import annotations

import datetime
import math
from typing import Any

DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"


def duration(seconds: Any) -> str:
    """Format seconds as `0.4 s`, `12 s`, `3 min 05 s` or `2 h 07 min`; a dash if unknown."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return DASH
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def metric(value: Any, digits: int = 3) -> str:
    """Format a metric; a dash if it was not measured (missing, NaN, or COCO's -1)."""
    if not isinstance(value, int | float) or not math.isfinite(value) or value == -1:
        return DASH
    return f"{value:.{digits}f}"


def signed(value: Any, digits: int = 3) -> str:
    """Format a difference with its sign; a dash if there is none."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return DASH
    return f"{value:+.{digits}f}".replace("-", MINUS)


def size(count: float) -> str:
    """Format a number of bytes, such as `3.4 MB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def thousands(value: Any) -> str:
    """Format a count with thin spaces between thousands."""
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else str(value)


def moment(iso: str) -> str:
    """Format an ISO 8601 time as `21 Nov 2026, 10:05 UTC`; other text is unchanged."""
    try:
        when = datetime.datetime.fromisoformat(iso)
    except ValueError:
        return iso
    zone = f" {when.tzname()}" if when.tzinfo else ""
    return f"{when.day} {when:%b %Y, %H:%M}{zone}"


def seconds_between(start: str, end: str) -> float | None:
    """Return the seconds between two ISO 8601 times; None if one is missing."""
    try:
        return (datetime.datetime.fromisoformat(end) - datetime.datetime.fromisoformat(start)).total_seconds()
    except (ValueError, TypeError):
        return None
