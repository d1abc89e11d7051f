"""A schedule on the server, as plain values, and its deletion.

A run's workflow belongs to the schedule that started it. When Kubernetes deletes the schedule, it deletes the
workflow too, but Kubeflow still reports the run as running. `remove` keeps active runs.
"""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.submission import pages
from pipeline.schedule.trigger import format_interval


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


def schedule_from(connection: Connection, run: Any) -> Schedule:
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


# `propagation_policy` needs kubeflow/pipelines#12574, which 2.16 has.
_LEAVES_RUNS_ALONE = "2.16"
_ENDED = ("SUCCEEDED", "FAILED", "CANCELED", "SKIPPED")


def remove(connection: Connection, schedule: Schedule) -> list[str]:
    """Delete a schedule; if that would stop active runs, pause it instead, and return their ids.

    Raises:
        ClusterError: from the server.
    """
    client = connection.client
    if not connection.is_at_least(_LEAVES_RUNS_ALONE):
        if schedule.enabled:
            # Pause first, so that no run starts in between.
            doing = f"pausing the schedule {schedule.name}"
            connection.call(doing, client.disable_recurring_run, schedule.schedule_id)
        under_way = _under_way(connection, schedule)
        if under_way:
            return under_way
    connection.call(
        f"deleting the schedule {schedule.name}",
        client.recurring_runs.recurring_run_service_delete_recurring_run,
        schedule.schedule_id,
        propagation_policy="ORPHAN",
    )
    return []


def _under_way(connection: Connection, schedule: Schedule) -> list[str]:
    runs = pages(
        connection,
        f"looking for runs of the schedule {schedule.name}",
        connection.client.list_runs,
        "runs",
        sort_by="created_at desc",
        experiment_id=schedule.experiment_id,
        namespace=connection.namespace,
    )
    mine = (run for run in runs if run.recurring_run_id == schedule.schedule_id)
    return [f"run {run.run_id}" for run in mine if run.state not in _ENDED]
