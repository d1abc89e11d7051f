"""Export a schedule as a systemd timer."""

import itertools
import os
import shlex
from collections.abc import Sequence

from detection_core.errors import ConfigError
from detection_core.report.page import render
from pipeline.schedule.trigger import Cron, CronField, Trigger

_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


def systemd_units(name: str, trigger: Trigger, command: Sequence[str], folder: str) -> str:
    """Return a service and its timer, each under a comment with its file name.

    A timer does not start a service that is still running, and without `Persistent=` it skips missed times.
    The command is one run of the workflow, with the program's absolute path.

    Raises:
        ConfigError: for a start or end, which a timer does not support.
    """
    if trigger.start or trigger.end:
        raise ConfigError(
            "a systemd timer has no beginning and end; leave schedule.start and schedule.end out, or run it"
            " with `detflow schedule run-local`",
            where="schedule",
        )
    if trigger.cron:
        when = [f"OnCalendar={c} {trigger.zone}" for c in calendar_events(trigger.cron)]
    else:
        seconds = trigger.interval_seconds
        when = [f"OnActiveSec={seconds}", f"OnUnitActiveSec={seconds}", "AccuracySec=1s"]
    texts = {"folder": _specifiers(folder), "command": _specifiers(shlex.join(command))}
    return render("systemd.txt", {"name": name, "when": when, **texts}, folders=(os.path.dirname(__file__),))


def calendar_events(cron: Cron) -> list[str]:
    """Return an expression as systemd calendar events; two if one matching day field is enough."""
    time = f"{_listed(cron.hour)}:{_listed(cron.minute)}:{_listed(cron.second)}"
    date = f"*-{_listed(cron.month)}-{_listed(cron.day)}"
    days = ",".join(_DAYS[d] for d in cron.weekday.values)
    if cron.weekday.full:
        # Full but not starred (0-6) beside a restricted day of month means every day.
        either = not cron.weekday.starred and not cron.day.starred
        return [f"*-{_listed(cron.month)}-* {time}" if either else f"{date} {time}"]
    any_date = f"*-{_listed(cron.month)}-*"
    if cron.day.starred or cron.weekday.starred:
        return [f"{days} {date} {time}"]
    return [f"{date} {time}", f"{days} {any_date} {time}"]


def _listed(field: CronField) -> str:
    return "*" if field.full else ",".join(_ranges(field.values))


def _ranges(values: Sequence[int]) -> list[str]:
    """Return numbers as text, three or more in a row as a range."""
    texts: list[str] = []
    # In a row, values grow as their places do.
    for _, pairs in itertools.groupby(enumerate(values), lambda pair: pair[1] - pair[0]):
        run = [value for _, value in pairs]
        texts += [f"{run[0]}..{run[-1]}"] if len(run) > 2 else map(str, run)
    return texts


def _specifiers(text: str) -> str:
    """Escape text for systemd, so that nothing is expanded."""
    return text.replace("%", "%%").replace("$", "$$")
