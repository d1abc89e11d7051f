"""Schedules on the server: recurring runs, identified by name.

A recurring run cannot be changed, so it is replaced. First the new one is created paused and the old one is
paused. Then the new one is resumed and the old one deleted. At each point a schedule exists and at most one
fires. The new one's description names the old one, so that a later call can finish an interrupted
replacement.
"""

import contextlib
import dataclasses
import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.config.suggestions import did_you_mean
from detection_core.errors import ConfigError
from pipeline.kubeflow import package
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.submission import PipelineVersion, filter_by_name, pages, start_run
from pipeline.run_parameters import check_parameters, parse_parameters
from pipeline.schedule.trigger import Trigger, format_interval


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """A schedule on the server.

    Attributes:
        schedule_id: id of the recurring run.
        cron: expression; empty for an interval.
        interval_seconds: 0 for a cron expression.
        start: beginning of its window; None: open.
        end: end of its window; None: open.
        catch_up: whether all missed slots are run later.
        version_id: pipeline version of its runs; empty: the newest at each run.
        enabled: False while it is paused.
    """

    schedule_id: str
    name: str
    cron: str
    interval_seconds: int
    start: datetime.datetime | None
    end: datetime.datetime | None
    max_concurrency: int
    catch_up: bool
    parameters: Mapping[str, Any]
    pipeline_id: str
    version_id: str
    experiment_id: str
    service_account: str
    enabled: bool
    description: str
    link: str

    @property
    def when(self) -> str:
        """The trigger in words."""
        return f"cron {self.cron}" if self.cron else f"every {format_interval(self.interval_seconds)}"


def _schedule_from(connection: Connection, run: Any) -> Schedule:
    """Convert the client's recurring run to a schedule."""
    cron = run.trigger and run.trigger.cron_schedule
    periodic = run.trigger and run.trigger.periodic_schedule
    window = cron or periodic
    reference = run.pipeline_version_reference
    return Schedule(
        schedule_id=run.recurring_run_id,
        name=run.display_name or "",
        cron=(cron and cron.cron) or "",
        interval_seconds=int((periodic and periodic.interval_second) or 0),
        start=_moment(window and window.start_time),
        end=_moment(window and window.end_time),
        max_concurrency=int(run.max_concurrency or 1),
        catch_up=not run.no_catchup,
        parameters=(run.runtime_config and run.runtime_config.parameters) or {},
        pipeline_id=(reference and reference.pipeline_id) or "",
        version_id=(reference and reference.pipeline_version_id) or "",
        experiment_id=run.experiment_id or "",
        service_account=run.service_account or "",
        enabled=run.status == "ENABLED",
        description=run.description or "",
        link=connection.link(f"recurringrun/details/{run.recurring_run_id}"),
    )


def _moment(found: datetime.datetime | None) -> datetime.datetime | None:
    """Return a time of a window; the server writes an open end as the zero time."""
    return found if found and found.year > 1970 else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScheduleSpec:
    """The requested state of a schedule.

    Attributes:
        name: unique name, by which later calls find it.
        max_concurrency: runs at the same time, 1 to 10.
        catch_up: run all slots missed during a pause or an outage, not only the last one.
        parameters: checked values; texts may hold placeholders.
        experiment_id: experiment of its runs.
        service_account: Kubernetes service account of the steps; empty: the server's default.
    """

    name: str
    trigger: Trigger
    max_concurrency: int
    catch_up: bool
    parameters: Mapping[str, Any]
    version: PipelineVersion
    experiment_id: str
    service_account: str = ""
    paused: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Applied:
    """The result of `apply`: `created`, `unchanged` or `replaced`, and differences, one sentence each."""

    action: str
    changes: tuple[str, ...]
    schedule: Schedule


def apply(connection: Connection, spec: ScheduleSpec) -> Applied:
    """Create or update a schedule; the call is idempotent.

    A replaced schedule stays paused if it was paused. A start in the past is sent only with `catch_up`.

    Raises:
        ConfigError: when several schedules have the name.
        ClusterError: from the server.
    """
    if not spec.catch_up:
        now = datetime.datetime.now(datetime.UTC)
        spec = dataclasses.replace(spec, trigger=spec.trigger.without_past_start(now))
    old = _finish_replacement(connection, spec.name)
    if old is None:
        made = _create(connection, spec, enabled=not spec.paused, description=_DESCRIPTION)
        if all(s.schedule_id == made.schedule_id for s in list_schedules(connection, spec.name)[:1]):
            return Applied(action="created", changes=(), schedule=made)
        # A concurrent call created one.
        with _unless_gone():
            delete(connection, made)
        return apply(connection, spec)
    changes = _differences(old, spec)
    if not changes:
        return Applied(action="unchanged", changes=(), schedule=old)
    then = f"Replaces {old.schedule_id}, then {'enabled' if old.enabled else 'paused'}."
    _create(connection, spec, enabled=False, description=f"{_DESCRIPTION} {then}")
    new = _finish_replacement(connection, spec.name)
    assert new is not None
    return Applied(action="replaced", changes=tuple(changes), schedule=new)


def list_schedules(connection: Connection, name: str = "") -> list[Schedule]:
    """Return the schedules of the namespace, or those with a name, oldest first."""
    listed = pages(
        connection,
        "listing the schedules",
        connection.client.list_recurring_runs,
        "recurring_runs",
        sort_by="created_at asc",
        namespace=connection.namespace,
        filter=filter_by_name(name) if name else None,
    )
    found = [_schedule_from(connection, entry) for entry in listed]
    return [s for s in found if not name or s.name == name]


def find_schedule(connection: Connection, name_or_id: str) -> Schedule:
    """Return the schedule with a name or an id; ConfigError for none, with the nearest, or several."""
    every = list_schedules(connection)
    named = [s for s in every if s.name == name_or_id]
    # An interrupted replacement leaves the replaced schedule paused.
    replaced = {_replaced_by(s) for s in named}
    named = [s for s in named if s.enabled or s.schedule_id not in replaced]
    found = named or [s for s in every if s.schedule_id == name_or_id]
    if not found:
        names = [s.name for s in every]
        known = f"there are {', '.join(names)}" if names else "there is none yet"
        hint = did_you_mean(name_or_id, names, known)
        raise ConfigError(f"no schedule {name_or_id}; {hint}", where=connection.host)
    if len(found) > 1:
        raise _ambiguous(connection, name_or_id, found)
    return found[0]


def set_enabled(connection: Connection, schedule: Schedule, *, enabled: bool) -> Schedule:
    """Resume or pause a schedule."""
    client = connection.client
    function = client.enable_recurring_run if enabled else client.disable_recurring_run
    doing = f"{'resuming' if enabled else 'pausing'} the schedule {schedule.name}"
    connection.call(doing, function, schedule.schedule_id)
    return dataclasses.replace(schedule, enabled=enabled)


def delete(connection: Connection, schedule: Schedule) -> None:
    """Delete a schedule and any schedule that it replaced; active and past runs are kept.

    Raises:
        ClusterError: from the server.
    """
    _remove(connection, schedule)
    replaced = _replaced_by(schedule)
    for other in list_schedules(connection, schedule.name) if replaced else ():
        if other.schedule_id == replaced:
            _remove(connection, other)


def _remove(connection: Connection, schedule: Schedule) -> None:
    """Delete one schedule.

    A run's workflow belongs to the schedule that started it, so Kubernetes would delete it too, and Kubeflow
    would report the run as running. `ORPHAN` keeps it; servers have it since 2.16 (kubeflow/pipelines#12574).
    """
    connection.call(
        f"deleting the schedule {schedule.name}",
        connection.client.recurring_runs.recurring_run_service_delete_recurring_run,
        schedule.schedule_id,
        propagation_policy="ORPHAN",
    )


def run_now(connection: Connection, schedule: Schedule, texts: list[str]) -> str:
    """Start one run with a schedule's pinned version and parameters, and return its id.

    Texts `NAME=VALUE` replace parameters of the schedule.

    Raises:
        ConfigError: for an unknown parameter, or a placeholder that nothing fills.
        ClusterError: from the server.
    """
    if not schedule.version_id:
        raise ConfigError(
            "the schedule pins no pipeline version; create it with `detflow schedule create`",
            where=schedule.name,
        )
    version = connection.call(
        f"reading the pipeline version of {schedule.name}",
        connection.client.get_pipeline_version,
        schedule.pipeline_id,
        schedule.version_id,
    )
    spec = version.pipeline_spec or {}
    declared = package.spec_parameters(spec)
    values = {**schedule.parameters, **parse_parameters(declared, texts)}
    values = check_parameters(declared, values, schedule.name)
    package.check_placeholders(values, package.filled_parameters(spec), schedule.name)
    package.check_schedule_time(connection, values, package.schedule_timed(spec), schedule.name)
    now = datetime.datetime.now(datetime.UTC)
    pinned = PipelineVersion(
        pipeline_id=schedule.pipeline_id,
        version_id=schedule.version_id,
        name=version.display_name or "",
        reused=True,
        root=package.artifact_root(version.pipeline_spec or {}),
    )
    return start_run(
        connection,
        pinned,
        f"{schedule.name} now {now:%Y-%m-%d %H:%M:%S}",
        experiment_id=schedule.experiment_id,
        parameters=values,
        service_account=schedule.service_account,
    )


_DESCRIPTION = "Made by `detflow schedule create`."


def _finish_replacement(connection: Connection, name: str) -> Schedule | None:
    """Finish interrupted replacements and return the schedule with the name; None without one.

    Interrupted or concurrent calls of `apply` may leave several. The newest replacement stays, or without one
    the oldest schedule. So of concurrent creators only the first keeps its schedule.
    """
    found = list_schedules(connection, name)
    if len(found) < 2:
        return found[0] if found else None
    replacements = [s for s in found if _replaced_by(s)]
    replaced = {_replaced_by(s) for s in replacements}
    foreign = [s for s in found if not s.description.startswith(_DESCRIPTION)]
    if any(s.schedule_id not in replaced for s in foreign):
        raise _ambiguous(connection, name, found)
    settled = replacements[-1] if replacements else found[0]
    others = [s for s in found if s is not settled]
    for other in others:
        if other.enabled:
            with _unless_gone():
                set_enabled(connection, other, enabled=False)
    if "then enabled." in settled.description and not settled.enabled:
        settled = set_enabled(connection, settled, enabled=True)
    for other in others:
        with _unless_gone():
            _remove(connection, other)
    return settled


@contextlib.contextmanager
def _unless_gone() -> Iterator[None]:
    """Ignore that another call has deleted the schedule."""
    try:
        yield
    except ClusterError as e:
        if e.status != 404:
            raise


def _replaced_by(schedule: Schedule) -> str:
    """Return the id of the schedule that another one replaces; empty: none."""
    marker = re.search(r"Replaces (\S+), then (enabled|paused)\.", schedule.description)
    return marker.group(1) if marker else ""


def _ambiguous(connection: Connection, name: str, found: list[Schedule]) -> ConfigError:
    ids = ", ".join(s.schedule_id for s in found)
    return ConfigError(
        f"{len(found)} schedules are named {name}: {ids}; delete all but one, by id, with "
        "`detflow schedule delete`",
        where=connection.host,
    )


def _differences(old: Schedule, spec: ScheduleSpec) -> list[str]:
    trigger, old_start = spec.trigger, old.start
    if old_start and not spec.catch_up and old_start <= datetime.datetime.now(datetime.UTC):
        old_start = None  # it is past
    compared: dict[str, tuple[Any, Any]] = {
        "cron": (old.cron, trigger.cron.text if trigger.cron else ""),
        "interval": (old.interval_seconds, trigger.interval_seconds),
        "start": (_seconds(old_start), _seconds(trigger.start)),
        "end": (_seconds(old.end), _seconds(trigger.end)),
        "max_concurrency": (old.max_concurrency, spec.max_concurrency),
        "catch_up": (old.catch_up, spec.catch_up),
        "parameters": (dict(old.parameters), dict(spec.parameters)),
        "pipeline version": (old.version_id, spec.version.version_id),
        "experiment": (old.experiment_id, spec.experiment_id),
    }
    if spec.service_account:
        # The server fills in its default.
        compared["service_account"] = (old.service_account, spec.service_account)
    return [f"{name}: {a!r} -> {b!r}" for name, (a, b) in compared.items() if a != b]


def _seconds(moment: datetime.datetime | None) -> str:
    return moment.astimezone(datetime.UTC).isoformat(timespec="seconds") if moment else ""


def _create(connection: Connection, spec: ScheduleSpec, *, enabled: bool, description: str) -> Schedule:
    trigger = spec.trigger
    made = connection.call(
        f"creating the schedule {spec.name}",
        connection.client.create_recurring_run,
        experiment_id=spec.experiment_id,
        job_name=spec.name,
        description=description,
        start_time=_seconds(trigger.start) or None,
        end_time=_seconds(trigger.end) or None,
        interval_second=trigger.interval_seconds or None,
        cron_expression=trigger.cron.text if trigger.cron else None,
        max_concurrency=spec.max_concurrency,
        no_catchup=not spec.catch_up,
        params=dict(spec.parameters),
        pipeline_root=spec.version.root or None,
        pipeline_id=spec.version.pipeline_id,
        version_id=spec.version.version_id,
        enabled=enabled,
        service_account=spec.service_account or None,
    )
    return _schedule_from(connection, made)
