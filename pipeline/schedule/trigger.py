"""When a schedule fires: a cron expression or an interval, within a window of time."""

from __future__ import annotations

import dataclasses
import datetime
import re
import zoneinfo

from detection_core.errors import ConfigError
from pipeline.schedule.cron import Cron, parse_cron

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
        while len(times) < count:
            found = self.next_after(times[-1] if times else moment)
            if found is None:
                break
            times.append(found)
        return times

    def without_past_start(self, moment: datetime.datetime) -> Trigger:
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
    zone = find_zone(time_zone)
    trigger = Trigger(
        cron=parse_cron(cron, "schedule.cron") if cron else None,
        interval_seconds=parse_interval(interval, "schedule.interval") if interval else 0,
        start=parse_time(start, "schedule.start") if start else None,
        end=parse_time(end, "schedule.end") if end else None,
        zone=zone,
    )
    if trigger.start and trigger.end and trigger.end <= trigger.start:
        raise ConfigError(f"expected an end after the start, found {start} to {end}", where="schedule.end")
    return trigger


def find_zone(time_zone: str) -> zoneinfo.ZoneInfo:
    """Return a zone by its IANA name.

    Raises:
        ConfigError: for an unknown name; `Europe` is a folder of the database.
    """
    try:
        return zoneinfo.ZoneInfo(time_zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise ConfigError(
            f"expected a name such as Europe/Paris, found {time_zone!r}", where="schedule.time_zone"
        ) from e


def require_future(trigger: Trigger, where: str) -> None:
    """Refuse a trigger that will not fire again.

    Raises:
        ConfigError: when its end is past, or before its first time.
    """
    if trigger.next_after(datetime.datetime.now(datetime.UTC)) is None:
        raise ConfigError(
            "the schedule would never fire: its end is past, or before its first time; correct schedule.end",
            where=where,
        )


def parse_interval(text: str, where: str) -> int:
    """Return the seconds of a text such as `45s`, `90m`, `6h`, `1d` or `1h30m`.

    Raises:
        ConfigError: for anything else, and for 0.
    """
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
    """Parse an RFC 3339 time. It needs a time zone, because machines may have different ones.

    Raises:
        ConfigError: for an invalid time.
    """
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
