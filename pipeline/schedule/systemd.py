"""Export a schedule as a systemd timer or a crontab line."""

import os
import shlex
from collections.abc import Sequence

from detection_core.errors import ConfigError
from pipeline.schedule.trigger import Cron, CronField, Trigger

_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_RUN_LOCAL = "run it with `detflow schedule run-local`"


def systemd_units(name: str, trigger: Trigger, command: Sequence[str], folder: str) -> str:
    """Return a service and its timer, each under a comment with its file name.

    A timer does not start a service that is still running, and without `Persistent=` it skips missed times.
    The command is one run of the workflow, with the program's absolute path.

    Raises:
        ConfigError: for a start or end, which a timer does not support.
    """
    _refuse_window(trigger, "a systemd timer")
    if trigger.cron:
        when = [f"OnCalendar={c} {trigger.zone}" for c in calendar_events(trigger.cron)]
    else:
        seconds = trigger.interval_seconds
        when = [f"OnActiveSec={seconds}", f"OnUnitActiveSec={seconds}", "AccuracySec=1s"]
    service = [
        f"# {name}.service",
        "[Unit]",
        f"Description=One run of the workflow {name}",
        "",
        "[Service]",
        "Type=oneshot",
        f"WorkingDirectory={_specifiers(folder)}",
        f"ExecStart={_specifiers(shlex.join(command))}",
        # On SIGINT Python ends cleanly: the run is recorded as stopped, and the next one resumes it.
        "KillSignal=SIGINT",
        "SuccessExitStatus=130",
    ]
    timer = [
        f"# {name}.timer",
        "[Unit]",
        f"Description=When the workflow {name} runs",
        "",
        "[Timer]",
        *when,
        "Persistent=false",
        "",
        "[Install]",
        "WantedBy=timers.target",
    ]
    return "\n".join([*service, "", *timer])


def crontab_line(trigger: Trigger, command: Sequence[str], folder: str, lock: str) -> str:
    """Return crontab lines that skip a run while the previous one is active.

    The command is one run of the workflow, with the program's absolute path. The folder of the lock file is
    created.

    Raises:
        ConfigError: when a crontab cannot express it.
    """
    _refuse_window(trigger, "a crontab")
    fields = five_fields(trigger.cron) if trigger.cron else _interval_fields(trigger.interval_seconds)
    words = (["cd", folder], ["mkdir", "-p", os.path.dirname(lock)], ["flock", "--nonblock", lock, *command])
    run = " && ".join(map(shlex.join, words)).replace("%", r"\%")
    return f"# The times are in the zone of the machine, which must be {trigger.zone}.\n{fields} {run}"


def calendar_events(cron: Cron) -> list[str]:
    """Return an expression as systemd calendar events; two if one matching day field is enough."""
    time = f"{_listed(cron.hour, '..')}:{_listed(cron.minute, '..')}:{_listed(cron.second, '..')}"
    date = f"*-{_listed(cron.month, '..')}-{_listed(cron.day, '..')}"
    days = ",".join(_DAYS[d] for d in cron.weekday.values)
    if cron.weekday.full:
        # Full but not starred (0-6) beside a restricted day of month means every day.
        either = not cron.weekday.starred and not cron.day.starred
        return [f"*-{_listed(cron.month, '..')}-* {time}" if either else f"{date} {time}"]
    any_date = f"*-{_listed(cron.month, '..')}-*"
    if cron.day.starred or cron.weekday.starred:
        return [f"{days} {date} {time}"]
    return [f"{date} {time}", f"{days} {any_date} {time}"]


def five_fields(cron: Cron) -> str:
    """Return the five fields of a crontab; ConfigError for seconds, or stepped beside restricted days."""
    if cron.second.values != (0,):
        raise ConfigError(
            f"a crontab knows no seconds, found {cron.text!r}; begin it with 0, or {_RUN_LOCAL}",
            where="schedule.cron",
        )
    days = (cron.day, cron.weekday)
    if any(d.starred and not d.full for d in days) and not any(d.full and d.starred for d in days):
        raise ConfigError(
            f"a crontab cannot ask for both days of {cron.text!r} at once; narrow one, or {_RUN_LOCAL}",
            where="schedule.cron",
        )
    fields = (cron.minute, cron.hour, cron.day, cron.month, cron.weekday)
    # 1-31 and 0-6 must stay written out: a star beside them would mean something else.
    return " ".join("*" if f.full and f.starred else ",".join(_ranges(f.values, "-")) for f in fields)


def _interval_fields(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    if not rest and minutes and 60 % minutes == 0:
        return f"*/{minutes} * * * *" if minutes < 60 else "0 * * * *"
    hours, rest = divmod(seconds, 3600)
    if not rest and 24 % hours == 0:
        return f"0 */{hours} * * *" if hours < 24 else "0 0 * * *"
    raise ConfigError(
        f"a crontab cannot repeat every {seconds} s: it wants a part of an hour or of a day; set "
        f"schedule.cron, or {_RUN_LOCAL}",
        where="schedule.interval",
    )


def _refuse_window(trigger: Trigger, what: str) -> None:
    if trigger.start or trigger.end:
        raise ConfigError(
            f"{what} has no beginning and end; leave schedule.start and schedule.end out, or {_RUN_LOCAL}",
            where="schedule",
        )


def _listed(field: CronField, between: str) -> str:
    return "*" if field.full else ",".join(_ranges(field.values, between))


def _ranges(values: Sequence[int], between: str) -> list[str]:
    """Return numbers as text, three or more in a row as a range."""
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    texts: list[str] = []
    for run in runs:
        texts += [f"{run[0]}{between}{run[-1]}"] if len(run) > 2 else [str(v) for v in run]
    return texts


def _specifiers(text: str) -> str:
    """Escape text for systemd, so that nothing is expanded."""
    return text.replace("%", "%%").replace("$", "$$")
