"""Format times by a Go layout, as in Kubeflow's schedules: `2006-01-02 15:04:05`.

The layout shows the reference time, Monday, 2 January 2006, 15:04:05 in UTC-7; see
https://pkg.go.dev/time#pkg-constants.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable

_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _hour12(t: datetime.datetime) -> int:
    return t.hour % 12 or 12


def _day_of_year(t: datetime.datetime) -> int:
    return t.timetuple().tm_yday


# Tried in this order at each place. Names are English, whatever the locale.
_ELEMENTS: tuple[tuple[str, Callable[[datetime.datetime], str]], ...] = (
    ("January", lambda t: _MONTHS[t.month - 1]),
    ("Jan(?![a-z])", lambda t: _MONTHS[t.month - 1][:3]),
    ("Monday", lambda t: _DAYS[t.weekday()]),
    ("Mon(?![a-z])", lambda t: _DAYS[t.weekday()][:3]),
    ("MST", lambda t: "UTC"),
    ("002", lambda t: f"{_day_of_year(t):03d}"),
    ("01", lambda t: f"{t.month:02d}"),
    ("02", lambda t: f"{t.day:02d}"),
    ("03", lambda t: f"{_hour12(t):02d}"),
    ("04", lambda t: f"{t.minute:02d}"),
    ("05", lambda t: f"{t.second:02d}"),
    ("06", lambda t: f"{t.year % 100:02d}"),
    ("15", lambda t: f"{t.hour:02d}"),
    ("1", lambda t: str(t.month)),
    ("2006", lambda t: f"{t.year:04d}"),
    ("__2", lambda t: f"{_day_of_year(t):3d}"),
    ("_2006", lambda t: f"_{t.year:04d}"),
    ("_2", lambda t: f"{t.day:2d}"),
    ("2", lambda t: str(t.day)),
    ("3", lambda t: str(_hour12(t))),
    ("4", lambda t: str(t.minute)),
    ("5", lambda t: str(t.second)),
    ("PM", lambda t: "PM" if t.hour >= 12 else "AM"),
    ("pm", lambda t: "pm" if t.hour >= 12 else "am"),
    ("-070000", lambda t: "+000000"),
    ("-07:00:00", lambda t: "+00:00:00"),
    ("-0700", lambda t: "+0000"),
    ("-07:00", lambda t: "+00:00"),
    ("-07", lambda t: "+00"),
    ("Z070000|Z07:00:00|Z0700|Z07:00|Z07", lambda t: "Z"),
)
# Fractions of a second, which are zero here. With nines, Go omits trailing zeros and the point.
_FRACTION = r"(?P<zeros>[.,]0+(?!\d))|(?P<nines>[.,]9+(?!\d))"
_PATTERN = re.compile("|".join([*(f"({pattern})" for pattern, _ in _ELEMENTS), _FRACTION]))


def format_time(moment: datetime.datetime, layout: str) -> str:
    """Format a time, in UTC and to the second, by a Go layout.

    Args:
        moment: with a time zone.
        layout: text whose elements of the reference time are replaced.
    """
    utc = moment.astimezone(datetime.UTC)

    def element(match: re.Match[str]) -> str:
        if match["zeros"]:
            return match["zeros"]
        if match["nines"]:
            return ""
        assert match.lastindex is not None
        return _ELEMENTS[match.lastindex - 1][1](utc)

    return _PATTERN.sub(element, layout)
