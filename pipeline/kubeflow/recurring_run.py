"""A schedule on the server, as plain values."""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from pipeline.kubeflow.connection import Connection
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
