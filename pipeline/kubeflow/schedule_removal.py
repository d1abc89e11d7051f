"""Deletes a schedule without stopping its active runs.

A run's workflow belongs to the schedule that started it: where Kubernetes deletes the one it deletes the
other, while Kubeflow goes on telling that the run is running. A server leaves them alone if it is asked to.
"""

from __future__ import annotations

from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.recurring_run import Schedule
from pipeline.kubeflow.submission import pages

# `propagation_policy` is of kubeflow/pipelines#12574, which 2.16 has.
_LEAVES_RUNS_ALONE = "2.16"
_ENDED = ("SUCCEEDED", "FAILED", "CANCELED", "SKIPPED")


def remove(connection: Connection, schedule: Schedule) -> list[str]:
    """Delete a schedule, unless a run under way would be stopped with it; then it is paused.

    Returns:
        Ids of the runs that keep it; empty: it is deleted.

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
