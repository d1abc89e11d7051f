"""A run on the server and its steps, as plain values."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.cluster.connection import Connection

FINISHED = ("succeeded", "skipped", "failed", "canceled")
_GOOD = ("succeeded", "skipped")
_DRIVER = "-driver"
_NEVER = datetime.datetime.max.replace(tzinfo=datetime.UTC)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepState:
    """A step of a run.

    Attributes:
        name: of the task.
        state: `pending`, `running`, `succeeded`, `skipped`, `failed`, `canceled`.
        seconds: how long it took; None while it runs.
        error: what the server says about a failure.
        pods: pods that may hold its log, the likeliest first.
    """

    name: str
    state: str
    seconds: float | None
    error: str
    pods: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunState:
    """A run.

    Attributes:
        run_id: of the run.
        name: as shown in the user interface.
        state: as of a step.
        error: what the server says about a failure.
        started: time of creation, RFC 3339.
        finished: time of its end; empty while it runs.
        schedule_id: recurring run that started it; empty: a person did.
        link: page of the user interface.
        steps: in the order in which they began.
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

    @property
    def ended(self) -> bool:
        """Whether it will not change by itself."""
        return self.state in FINISHED

    @property
    def good(self) -> bool:
        """Whether it ended well."""
        return self.state in _GOOD

    def failure(self) -> str:
        """Say in one line which step failed and why; empty for a run that did not fail."""
        if not self.ended or self.good:
            return ""
        failed = next((s for s in self.steps if s.state == "failed"), None)
        if failed:
            return f"step {failed.name} failed: {failed.error or self.error or 'see its log'}"
        return f"the run is {self.state}: {self.error or 'no step says why; see the user interface'}"


def run_state(connection: Connection, run: Any, steps: Sequence[str]) -> RunState:
    """Return what the server says about a run.

    Args:
        connection: to the server.
        run: as the client gives it.
        steps: names of the pipeline's tasks; empty where they are not known.
    """
    return RunState(
        run_id=run.run_id,
        name=run.display_name or "",
        state=_word(run.state),
        error=_error(run),
        started=_time(run.created_at),
        # A run under way bears the beginning of time.
        finished=_time(run.finished_at) if run.finished_at and run.finished_at.year > 1970 else "",
        schedule_id=run.recurring_run_id or "",
        link=connection.link(f"runs/details/{run.run_id}"),
        steps=_step_states(run, steps),
    )


def _step_states(run: Any, steps: Sequence[str]) -> tuple[StepState, ...]:
    """Return the tasks of the pipeline, without the drivers and executors that Kubeflow adds for each."""
    details = (run.run_details and run.run_details.task_details) or []
    # The driver prepares a step; where it fails, the step itself is never begun.
    broken = [d for d in details if (d.display_name or "").endswith(_DRIVER) and _word(d.state) == "failed"]
    unbegun = {d.display_name.removesuffix(_DRIVER) for d in broken}
    own = [d for d in details if (d.display_name in steps if steps else _is_step(d))]
    shown = [*broken, *(d for d in own if d.display_name not in unbegun)]
    shown.sort(key=lambda d: d.start_time or d.create_time or _NEVER)
    # A child is named by the id of its task or, as servers do it, by its pod.
    known = {key: d for d in details for key in (d.task_id, d.pod_name) if key}
    return tuple(_unbegun(d) if d in broken else _step_state(d, known) for d in shown)


def _unbegun(driver: Any) -> StepState:
    return StepState(
        name=driver.display_name.removesuffix(_DRIVER),
        state="failed",
        seconds=None,
        error=_error(driver) or "Kubeflow's driver could not prepare it",
        pods=(driver.pod_name,) if driver.pod_name else (),
    )


def _is_step(detail: Any) -> bool:
    name = detail.display_name or ""
    return (
        bool(detail.parent_task_id)
        and not name.startswith(("executor", "root"))
        and not name.endswith(_DRIVER)
    )


def _step_state(detail: Any, known: Mapping[str, Any]) -> StepState:
    below = _executors(detail, known)
    errors = [_error(d) for d in (*below, detail)]
    pods = [d.pod_name for d in below] + [c.pod_name for c in detail.child_tasks or ()] + [detail.pod_name]
    ended = detail.end_time and detail.start_time and detail.end_time >= detail.start_time
    return StepState(
        name=detail.display_name,
        state=_word(detail.state),
        seconds=(detail.end_time - detail.start_time).total_seconds() if ended else None,
        error=next((e for e in errors if e), ""),
        pods=tuple(dict.fromkeys(p for p in pods if p)),
    )


def _executors(detail: Any, known: Mapping[str, Any]) -> list[Any]:
    """Return the tasks in which a step is executed; of one that is retried, the last attempt first.

    Below them Argo hangs the steps that come next, which do not belong here.
    """
    found: list[Any] = []
    for child in reversed(detail.child_tasks or ()):
        task = known.get(child.task_id or child.pod_name)
        if task is not None and (task.display_name or "").startswith("executor"):
            found += [*_executors(task, known), task]
    return found


def _word(state: str | None) -> str:
    return "pending" if not state or state == "RUNTIME_STATE_UNSPECIFIED" else state.lower()


def _error(thing: Any) -> str:
    message = thing.error.message if thing.error else ""
    return " ".join((message or "").split())


def _time(moment: datetime.datetime | None) -> str:
    return moment.isoformat(timespec="seconds") if moment else ""
