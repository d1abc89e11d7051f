"""A run on the server, as plain values."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.step_state import Ending, StepState, Tasks, error_of, step_states, word_of

FINISHED = ("succeeded", "skipped", "failed", "cancelled")
_GOOD = ("succeeded", "skipped")
_OWN_NAMESPACE = "kubeflow"  # where the runs of a server without users are, as it is installed
_EARLIEST = datetime.datetime.min.replace(tzinfo=datetime.UTC)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunState:
    """A run.

    Attributes:
        run_id: of the run.
        name: as shown in the user interface.
        state: `pending`, `running`, `cancelling`, `paused`, or how it ended: `succeeded`, `skipped`,
            `failed`, `cancelled`.
        error: what the server says about a failure.
        started: time of creation, RFC 3339.
        finished: time of its end; empty while it runs.
        schedule_id: recurring run that started it; empty: a person did.
        link: page of the user interface.
        steps: in the order in which they began, each followed by those inside it.
        namespace: of its pods.
    """

    run_id: str
    name: str
    state: str
    error: str
    started: str
    finished: str
    schedule_id: str
    link: str
    steps: tuple[StepState, ...]
    namespace: str = ""

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self.state in FINISHED

    @property
    def good(self) -> bool:
        """Whether the run succeeded."""
        return self.state in _GOOD

    @property
    def failed_step(self) -> StepState | None:
        """The step that failed: the innermost one, which is the one with a log."""
        failed = [s for s in self.steps if s.state == "failed"]
        return next((s for s in failed if not any(f.name.startswith(f"{s.name}/") for f in failed)), None)

    def failure(self) -> str:
        """Say in one line which step failed and why; empty for a run that did not fail."""
        if self.state != "failed":
            return ""
        failed = self.failed_step
        if failed:
            return f"step {failed.name} failed: {failed.error or self.error or 'see its log'}"
        return f"the run failed: {self.error or 'no step says why; see the user interface'}"

    def where_to_look(self, step: StepState) -> str:
        """Say how to find out why a step's pod does not start."""
        selected = f"-l workflows.argoproj.io/workflow={step.workflow}"
        return (
            f"{step.name} waits for its pod; if that lasts (an image, secret or node is missing), `kubectl -n"
            f" {self.namespace} describe pod {selected}` says why, as do the events at {self.link}"
        )


def run_state(connection: Connection, run: Any, tasks: Tasks) -> RunState:
    """Return what the server says about a run.

    Args:
        connection: to the server.
        run: as the client gives it.
        tasks: the pipeline's tasks, as `step_tree` gives them; empty where they are not known.
    """
    cancelled = _cancelled_at(run)
    state = word_of(run.state)
    if state == "failed" and cancelled:
        # Argo knows no cancelled workflow: one that was stopped has failed.
        state = "cancelled"
    details = (run.run_details and run.run_details.task_details) or []
    return RunState(
        run_id=run.run_id,
        name=run.display_name or "",
        state=state,
        error=error_of(run),
        started=_time(run.created_at),
        # A run under way bears the beginning of time.
        finished=_time(run.finished_at) if run.finished_at and run.finished_at.year > 1970 else "",
        schedule_id=run.recurring_run_id or "",
        link=connection.link(f"runs/details/{run.run_id}"),
        namespace=connection.namespace or _OWN_NAMESPACE,
        steps=step_states(details, tasks, Ending(ended=state in FINISHED, cancelled=cancelled)),
    )


def is_settled(run: Any) -> bool:
    """Tell whether the tasks of a run that has ended are those of its end.

    The server stores the run's state first and the tasks after it (2.17.0,
    `server/report_server.go:reportWorkflow`): for some 0.3 s they are those of the report before, in which at
    least the workflow itself is running.
    """
    details = (run.run_details and run.run_details.task_details) or []
    return bool(details) and not any(detail.state == "RUNNING" for detail in details)


def _cancelled_at(run: Any) -> datetime.datetime | None:
    """Return when a run was stopped by a user, unless it was retried since."""
    for entry in reversed(run.state_history or ()):
        if entry.state in ("CANCELING", "CANCELED"):
            return entry.update_time or _EARLIEST
        if entry.state in ("PENDING", "RUNNING"):
            return None
    return None


def _time(moment: datetime.datetime | None) -> str:
    return moment.isoformat(timespec="seconds") if moment else ""
