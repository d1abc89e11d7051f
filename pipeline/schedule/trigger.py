"""When a schedule fires: a cron expression or an interval, within a window of time.

Cron expressions have six fields, seconds first, as the cluster's scheduler reads them (robfig/cron v1). They
are seconds, minutes, hours, day of month, month, day of week. Each is a list of numbers, ranges `a-b`
and steps `a-b/n`; `a/n` means from a to the field's end. `*` and `?` mean any; months and days of the week
have English names. If day of month and day of week are both restricted, one match is enough.
"""

import dataclasses
import datetime
import itertools
import re
import zoneinfo
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
            for time in self._times(wall.time() if offset == 0 else datetime.time()):
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
    parts = [_part(part, kind, where) for part in text.split(",")]
    values = sorted({number for numbers, _ in parts for number in numbers})
    starred, full = any(star for _, star in parts), len(values) == kind.high - kind.low + 1
    return CronField(tuple(values), starred, full)


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


_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
LONGEST_INTERVAL = 3660 * 86400


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trigger:
    """Times at which a run starts.

    Attributes:
        cron: expression; None for an interval.
        interval_seconds: seconds from one run to the next; 0 for a cron expression.
        start: nothing fires before or at this time.
        end: nothing fires after this time.
        zone: time zone of the expression. On a cluster the server's zone applies.
    """

    cron: Cron | None
    interval_seconds: int
    start: datetime.datetime | None
    end: datetime.datetime | None
    zone: datetime.tzinfo

    def next_after(self, moment: datetime.datetime) -> datetime.datetime | None:
        """Return the first time after a moment, in the trigger's zone; None: it does not fire again."""
        start = self.start
        if self.cron:
            # A slot exactly at the start does not fire, as on a cluster.
            found = self.cron.next_after(max(moment, start or moment).astimezone(self.zone))
        elif start:
            step = datetime.timedelta(seconds=self.interval_seconds)
            steps = max(1, (moment - start) // step + 1)
            found = (start + steps * step).astimezone(self.zone)
        else:
            found = (moment + datetime.timedelta(seconds=self.interval_seconds)).astimezone(self.zone)
        return None if found and self.end and found > self.end else found

    def preview(self, moment: datetime.datetime, count: int) -> list[datetime.datetime]:
        """Return the next times after a moment, at most the requested number."""
        times: list[datetime.datetime] = []
        while len(times) < count and (found := self.next_after(times[-1] if times else moment)):
            times.append(found)
        return times

    def without_past_start(self, moment: datetime.datetime) -> "Trigger":
        """Return the trigger without a start in the past.

        A cluster would run the last missed slot as soon as it gets the schedule.
        """
        return dataclasses.replace(self, start=None) if self.start and self.start <= moment else self

    def describe(self) -> str:
        """Describe the trigger in words."""
        when = f"cron {self.cron.text}" if self.cron else f"every {format_interval(self.interval_seconds)}"
        window = (("from", self.start), ("until", self.end))
        return " ".join([when, *(f"{word} {time.isoformat()}" for word, time in window if time)])


def make_trigger(*, cron: str, interval: str, start: str, end: str, time_zone: str) -> Trigger:
    """Read the texts of the `schedule` settings.

    Either `cron` or `interval` is empty. An empty start means at once, an empty end never.

    Raises:
        ConfigError: with the key as `where`.
    """
    if bool(cron) == bool(interval):
        found = "both" if cron else "neither"
        raise ConfigError(
            f"expected one of schedule.cron (six fields, seconds first) and schedule.interval, found {found}",
            where="schedule",
        )
    trigger = Trigger(
        zone=find_zone(time_zone),
        cron=parse_cron(cron, "schedule.cron") if cron else None,
        interval_seconds=parse_interval(interval, "schedule.interval") if interval else 0,
        start=parse_time(start, "schedule.start") if start else None,
        end=parse_time(end, "schedule.end") if end else None,
    )
    if trigger.start and trigger.end and trigger.end <= trigger.start:
        raise ConfigError(f"expected an end after the start, found {start} to {end}", where="schedule.end")
    return trigger


def find_zone(time_zone: str) -> zoneinfo.ZoneInfo:
    """Return a zone by its IANA name; ConfigError for others: `Europe` is a folder of the database."""
    try:
        return zoneinfo.ZoneInfo(time_zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise ConfigError(
            f"expected a name such as Europe/Paris, found {time_zone!r}", where="schedule.time_zone"
        ) from e


def require_future(trigger: Trigger, where: str) -> None:
    """Refuse a trigger that will not fire again; ConfigError when it ended, or ends before its start."""
    if trigger.next_after(datetime.datetime.now(datetime.UTC)) is None:
        raise ConfigError(
            "the schedule would never fire: its end is past, or before its first time; correct schedule.end",
            where=where,
        )


def parse_interval(text: str, where: str) -> int:
    """Return the seconds of `45s`, `90m`, `6h`, `1d` or `1h30m`; ConfigError for all else, and for 0."""
    body = text.strip().removeprefix("@every ").strip()
    parts = re.findall(r"(\d{1,9})([dhms])", body)
    seconds = sum(int(number) * _UNITS[unit] for number, unit in parts)
    if "".join(n + u for n, u in parts) != body or not 1 <= seconds <= LONGEST_INTERVAL:
        raise ConfigError(
            f"expected a time such as 90m, 6h or 1d, at most 3660d, found {text[:80]!r}", where=where
        )
    return seconds


def format_interval(seconds: int) -> str:
    """Return seconds as `1h30m`."""
    text = ""
    for unit, size in _UNITS.items():
        count, seconds = divmod(seconds, size)
        text += f"{count}{unit}" if count else ""
    return text


def parse_time(text: str, where: str) -> datetime.datetime:
    """Parse an RFC 3339 time with its time zone; ConfigError for an invalid time."""
    example = "2030-01-31T03:00:00Z"
    try:
        if not re.match(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}", text):
            raise ValueError(text)
        found = datetime.datetime.fromisoformat(text.upper())
    except ValueError as e:
        raise ConfigError(f"expected an RFC 3339 time such as {example}, found {text!r}", where=where) from e
    if found.tzinfo is None:
        raise ConfigError(
            f"expected a time with a zone such as {example}, found {text!r}; add Z or +01:00", where=where
        )
    return found
