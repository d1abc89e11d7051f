"""Cron expressions of six fields, seconds first, as the cluster's scheduler reads them (robfig/cron v1).

Fields are seconds, minutes, hours, day of month, month, day of week. Each is a list of numbers, ranges `a-b`
and steps `a-b/n`; `a/n` means from a to the field's end. `*` and `?` mean any; months and days of the week
have English names. If day of month and day of week are both restricted, one match is enough.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import re
from collections.abc import Iterator

from detection_core.errors import ConfigError

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DESCRIPTORS = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
# `str.isdigit` accepts digits that `int` does not, such as ², and `int` accepts at most 4,300.
_NUMBER = re.compile("[0-9]{1,9}")
# February 29 comes once in eight years around 2100; the scheduler itself looks five years ahead.
_HORIZON_DAYS = 5 * 366


@dataclasses.dataclass(frozen=True)
class _FieldKind:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def number(self, text: str, where: str) -> int:
        if text.lower() in self.names:
            return self.low + self.names.index(text.lower())
        if not _NUMBER.fullmatch(text):
            known = f" or a name of {self.names[0]} to {self.names[-1]}" if self.names else ""
            raise ConfigError(f"{self.name}: expected a number{known}, found {text[:40]!r}", where=where)
        if not self.low <= int(text) <= self.high:
            hint = "; Sunday is 0" if self.name == "day of week" and text == "7" else ""
            raise ConfigError(
                f"{self.name}: expected {self.low} to {self.high}, found {text}{hint}", where=where
            )
        return int(text)


_KINDS = (
    _FieldKind("seconds", 0, 59),
    _FieldKind("minutes", 0, 59),
    _FieldKind("hours", 0, 23),
    _FieldKind("day of month", 1, 31),
    _FieldKind("month", 1, 12, _MONTHS),
    _FieldKind("day of week", 0, 6, _DAYS),
)


@dataclasses.dataclass(frozen=True)
class CronField:
    """One field.

    Attributes:
        values: matching numbers, sorted.
        starred: written with `*` or `?`, possibly with a step: then both day fields must match.
        full: matches every number.
    """

    values: tuple[int, ...]
    starred: bool
    full: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cron:
    """A parsed expression.

    Attributes:
        second: field of the seconds; the other five likewise.
    """

    text: str
    second: CronField
    minute: CronField
    hour: CronField
    day: CronField
    month: CronField
    weekday: CronField

    def next_after(self, moment: datetime.datetime) -> datetime.datetime | None:
        """Return the first time after a moment, in the moment's time zone; None: not within five years.

        A time skipped by a clock change does not fire; a repeated one fires once.
        """
        zone = moment.tzinfo
        wall = moment.replace(tzinfo=None, microsecond=0) + datetime.timedelta(seconds=1)
        for offset in range(_HORIZON_DAYS):
            date = wall.date() + datetime.timedelta(days=offset)
            if not self._allows(date):
                continue
            earliest = wall.time() if offset == 0 else datetime.time()
            for time in self._times(earliest):
                found = datetime.datetime.combine(date, time, zone)
                if _exists(found) and found.timestamp() > moment.timestamp():
                    return found
        return None

    def _allows(self, date: datetime.date) -> bool:
        if date.month not in self.month.values:
            return False
        in_month = date.day in self.day.values
        in_week = date.isoweekday() % 7 in self.weekday.values
        if self.day.starred or self.weekday.starred:
            return in_month and in_week
        return in_month or in_week

    def _times(self, earliest: datetime.time) -> Iterator[datetime.time]:
        for hour, minute in itertools.product(self.hour.values, self.minute.values):
            if (hour, minute) < (earliest.hour, earliest.minute):
                continue
            for second in self.second.values:
                time = datetime.time(hour, minute, second)
                if time >= earliest:
                    yield time


def parse_cron(text: str, where: str) -> Cron:
    """Read an expression.

    It has six fields, or is a name such as `@daily`. For `@every` use `schedule.interval`.

    Raises:
        ConfigError: naming field, range and correct form.
    """
    expression = text.strip()
    if expression.startswith("@"):
        if expression not in _DESCRIPTORS:
            raise ConfigError(
                f"expected one of {', '.join(_DESCRIPTORS)}, found {text!r}; for `@every` set an interval",
                where=where,
            )
        expression = _DESCRIPTORS[expression]
    if re.match(r"(CRON_)?TZ=", expression):
        raise ConfigError(
            "the cluster takes no time zone in an expression; leave it out: the zone is the server's "
            "CRON_SCHEDULE_TIMEZONE",
            where=where,
        )
    fields = expression.split()
    if len(fields) == 5:
        raise ConfigError(
            f"expected six fields, seconds first, found five: {text!r}; the cluster would read its minutes "
            f"as seconds. Write '0 {' '.join(fields)}'",
            where=where,
        )
    if len(fields) != 6:
        raise ConfigError(
            f"expected six fields (seconds minutes hours day month weekday), found {len(fields)}: {text!r}; "
            "three o'clock every day is '0 0 3 * * *'",
            where=where,
        )
    parsed = [_field(field, kind, where) for field, kind in zip(fields, _KINDS, strict=True)]
    names = ("second", "minute", "hour", "day", "month", "weekday")
    cron = Cron(text=text.strip(), **dict(zip(names, parsed, strict=True)))
    if cron.next_after(datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)) is None:
        raise ConfigError(f"{text!r} names a day that no month has; correct it", where=where)
    return cron


def _field(text: str, kind: _FieldKind, where: str) -> CronField:
    values: set[int] = set()
    starred = False
    for part in text.split(","):
        numbers, has_star = _part(part, kind, where)
        values.update(numbers)
        starred = starred or has_star
    return CronField(tuple(sorted(values)), starred, len(values) == kind.high - kind.low + 1)


def _part(part: str, kind: _FieldKind, where: str) -> tuple[range, bool]:
    """Return the numbers of one list entry, and whether it has a star."""
    body, *steps = part.split("/")
    ends = body.split("-")
    if not body or len(steps) > 1 or len(ends) > 2:
        raise ConfigError(f"{kind.name}: expected a number, a-b or a-b/n, found {part!r}", where=where)
    if steps and (not _NUMBER.fullmatch(steps[0]) or int(steps[0]) == 0):
        raise ConfigError(
            f"{kind.name}: expected a step above 0 after the slash, found {part[:40]!r}", where=where
        )
    step = int(steps[0]) if steps else 1
    if body in ("*", "?"):
        return range(kind.low, kind.high + 1, step), True
    low = kind.number(ends[0], where)
    high = kind.number(ends[-1], where) if len(ends) == 2 or not steps else kind.high
    if high < low:
        raise ConfigError(f"{kind.name}: the range {body} ends before it begins", where=where)
    return range(low, high + 1, step), False


def _exists(moment: datetime.datetime) -> bool:
    """Tell whether a wall-clock time exists in its zone."""
    through_utc = moment.astimezone(datetime.UTC).astimezone(moment.tzinfo)
    return through_utc.replace(tzinfo=None) == moment.replace(tzinfo=None)
