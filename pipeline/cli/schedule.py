"""The verbs of `detflow schedule`: recurring runs on a server or on one machine."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from detection_core.python_process import python_command
from pipeline.cli import cluster
from pipeline.cli.base import Group, Result, verb
from pipeline.cli.server import open_connection
from pipeline.tables import Table

if TYPE_CHECKING:
    from pipeline.kubeflow.connection import Connection
    from pipeline.kubeflow.schedules import Schedule
    from pipeline.kubeflow.submission import Source
    from pipeline.schedule.trigger import Trigger
    from pipeline.settings.schedule_settings import ScheduleSettings
    from pipeline.settings.workflow_settings import PipelineSettings

_logger = logging.getLogger(__name__)

_PREVIEW = 5


@verb("detflow schedule create examples/digits/settings.yaml --cron '0 0 3 * * *'")
def create(arguments: argparse.Namespace) -> Result:
    """Create a schedule on the server, or replace the one of this name if it differs."""
    from pipeline.kubeflow import schedules
    from pipeline.kubeflow.submission import ensure_experiment, open_source

    with open_source(arguments.file, arguments.overrides, arguments.override_files) as source:
        schedule_settings = _settings_of(arguments, source)
        trigger = schedule_settings.trigger(source.path)
        if not schedule_settings.catch_up:
            trigger = trigger.without_past_start(datetime.datetime.now(datetime.UTC))
        connection, version, values = cluster.publish_source(arguments, source, schedule_settings.parameters)
    applied = schedules.apply(
        connection,
        schedules.ScheduleSpec(
            name=schedule_settings.name or source.package.name,
            trigger=trigger,
            max_concurrency=schedule_settings.max_concurrency,
            catch_up=schedule_settings.catch_up,
            parameters=values,
            version=version,
            experiment_id=ensure_experiment(connection, cluster.experiment_of(arguments, source)),
            service_account=arguments.service_account or source.kubeflow.service_account,
            paused=schedule_settings.paused,
        ),
    )
    schedule = applied.schedule
    head = f"schedule {schedule.name} {applied.action}{'' if schedule.enabled else '; it is paused'}"
    lines = [head, *(f"  {change}" for change in applied.changes), schedule.link, "", *_preview(trigger)]
    data = {"action": applied.action, "changes": list(applied.changes), **_data(schedule)}
    return Result(text="\n".join(lines), data=data | {"next": _times(trigger)})


def _settings_of(arguments: argparse.Namespace, source: Source) -> ScheduleSettings:
    """Return the `schedule` section, overridden by the flags."""
    from pipeline.settings.schedule_settings import ScheduleSettings
    from pipeline.settings.validation_errors import locating_errors

    given = {
        name: value
        for name in ScheduleSettings.model_fields
        if name != "parameters" and (value := getattr(arguments, name, None)) is not None
    }
    if "cron" in given:
        given.setdefault("interval", "")
    elif "interval" in given:
        given.setdefault("cron", "")
    section = source.settings.schedule if source.settings else ScheduleSettings()
    with locating_errors(ScheduleSettings, {"": source.path}, "schedule."):
        return ScheduleSettings.model_validate({**section.model_dump(), **given})


@verb("detflow schedule list --host http://localhost:8080", name="list")
def list_schedules(arguments: argparse.Namespace) -> Result:
    """List the schedules of the server."""
    from pipeline.kubeflow import schedules

    found = schedules.list_schedules(open_connection(arguments))
    rows = [("name", "when", "state", "parameters", "id")]
    rows += [(s.name, s.when, _state(s), _parameters(s), s.schedule_id) for s in found]
    return Result(text=Table(rows) if found else "no schedules yet", data=[_data(s) for s in found])


@verb("detflow schedule show nightly --host http://localhost:8080")
def show(arguments: argparse.Namespace) -> Result:
    """Show a schedule of the server."""
    _, schedule = _find(arguments)
    rows = [
        ("name", schedule.name),
        ("id", schedule.schedule_id),
        ("when", schedule.when),
        ("window", " to ".join(t.isoformat() if t else "open" for t in (schedule.start, schedule.end))),
        ("state", _state(schedule)),
        ("at the same time", str(schedule.max_concurrency)),
        ("missed slots", "all run later" if schedule.catch_up else "only the last one runs later"),
        ("pipeline version", schedule.version_id or "the newest at each run"),
        ("parameters", _parameters(schedule)),
        ("page", schedule.link),
    ]
    return Result(text=Table(rows, header=False), data=_data(schedule))


@verb("detflow schedule pause nightly --host http://localhost:8080")
def pause(arguments: argparse.Namespace) -> Result:
    """Pause a schedule of the server; active runs continue."""
    from pipeline.kubeflow import schedules

    connection, schedule = _find(arguments)
    return _changed(schedules.set_enabled(connection, schedule, enabled=False), "paused")


@verb("detflow schedule resume nightly --host http://localhost:8080")
def resume(arguments: argparse.Namespace) -> Result:
    """Resume a paused schedule of the server."""
    from pipeline.kubeflow import schedules

    connection, schedule = _find(arguments)
    return _changed(schedules.set_enabled(connection, schedule, enabled=True), "resumed")


@verb("detflow schedule delete nightly --host http://localhost:8080")
def delete(arguments: argparse.Namespace) -> Result:
    """Delete a schedule of the server; its runs stay."""
    from pipeline.kubeflow import schedules

    connection, schedule = _find(arguments)
    schedules.delete(connection, schedule)
    return _changed(schedule, "deleted; its runs stay")


@verb("detflow schedule run-now nightly --host http://localhost:8080")
def run_now(arguments: argparse.Namespace) -> Result:
    """Start one run with the version and parameters of a schedule."""
    from pipeline.kubeflow import schedules

    connection, schedule = _find(arguments)
    run_id = schedules.run_now(connection, schedule, arguments.parameters)
    link = connection.link(f"runs/details/{run_id}")
    return Result(text=f"run {run_id}\n{link}", data={"schedule": schedule.name, "run": run_id, "link": link})


def _find(arguments: argparse.Namespace) -> tuple[Connection, Schedule]:
    from pipeline.kubeflow import schedules

    connection = open_connection(arguments)
    return connection, schedules.find_schedule(connection, arguments.name)


@verb("detflow schedule preview examples/digits/settings.yaml --set schedule.interval=6h")
def preview(arguments: argparse.Namespace) -> Result:
    """Check the schedule of a settings file and print its next times."""
    from pipeline.settings.settings_file import load_settings

    settings = load_settings(arguments.settings, arguments.overrides, check_files=False)
    trigger = settings.schedule.trigger(arguments.settings)
    return Result(
        text="\n".join([trigger.describe(), *_preview(trigger)]),
        data={"when": trigger.describe(), "next": _times(trigger)},
    )


@verb("detflow schedule run-local examples/digits/settings.yaml --set schedule.cron=@daily")
def run_local(arguments: argparse.Namespace) -> Result:
    """Run a workflow by its schedule on this machine, until stopped."""
    from pipeline.local.workspace import Workspace
    from pipeline.schedule.local_scheduler import LocalSchedule
    from pipeline.schedule.systemd import systemd_units
    from pipeline.settings.settings_file import load_settings

    overrides, files = arguments.overrides, [os.path.abspath(f) for f in arguments.override_files]
    settings = load_settings(
        arguments.settings, overrides, override_files=files, check_files=not arguments.print_systemd
    )
    trigger = settings.schedule.trigger(arguments.settings)
    name = settings.schedule.name or settings.name
    workflow = ["run", os.path.abspath(arguments.settings)]
    workflow += [word for text in overrides for word in ("--set", text)]
    workflow += [word for file in files for word in ("--override-file", file)]
    workflow += [word for text in _local_parameters(settings) for word in ("--param", text)]
    if arguments.print_systemd:
        units = systemd_units(name, trigger, [*_program(), *workflow], os.getcwd())
        return Result(text=units, data={"units": units})
    _logger.info("schedule | %s: %s", name, trigger.describe())
    command = [*python_command("pipeline.cli"), *workflow]
    is_running = Workspace(settings.workspace).is_locked
    made = LocalSchedule(trigger, command, settings.workspace, is_running).serve(arguments.max_runs)
    return Result(text=f"{made} runs", data={"schedule": name, "runs": made})


def _local_parameters(settings: PipelineSettings) -> list[str]:
    from pipeline.run_parameters import IMAGE, check_parameters, declared_parameters

    given = dict(settings.schedule.parameters)
    if given.pop(IMAGE, None):
        _logger.warning("schedule | the parameter %s is for a cluster; here no image is run", IMAGE)
    values = check_parameters(declared_parameters(), given, "schedule.parameters")
    return [f"{n}={v if isinstance(v, str) else json.dumps(v)}" for n, v in values.items()]


def _program() -> list[str]:
    """Return the command installed beside the interpreter, or the interpreter and the module."""
    installed = os.path.join(os.path.dirname(sys.executable), "detflow")
    return [installed] if os.path.exists(installed) else python_command("pipeline.cli")


def _changed(schedule: Schedule, what: str) -> Result:
    return Result(text=f"schedule {schedule.name} {what}", data=_data(schedule))


def _state(schedule: Schedule) -> str:
    return "on" if schedule.enabled else "paused"


def _parameters(schedule: Schedule) -> str:
    return ", ".join(f"{name}={value}" for name, value in schedule.parameters.items()) or "-"


def _data(schedule: Schedule) -> dict[str, Any]:
    data = dataclasses.asdict(schedule)
    return data | {k: data[k].isoformat() if data[k] else "" for k in ("start", "end")}


def _times(trigger: Trigger) -> list[str]:
    times = trigger.preview(datetime.datetime.now(datetime.UTC), _PREVIEW)
    return [time.isoformat(timespec="seconds") for time in times]


def _preview(trigger: Trigger) -> list[str]:
    return [f"next times, {trigger.zone}:", *(f"  {time}" for time in _times(trigger))]


GROUP = Group(
    name="schedule",
    summary="Run a workflow by itself at given times, on a server or on this machine.",
    verbs=(create, list_schedules, show, pause, resume, run_now, delete, preview, run_local),
)
