"""Runs on the server: read, wait for, cancel and retry them."""

import dataclasses
import datetime
import itertools
import logging
import time
from collections.abc import Callable
from typing import Any

from detection_core.errors import ConfigError
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.package import step_tree
from pipeline.kubeflow.run_tasks import read_tasks, task_states
from pipeline.kubeflow.step_state import Ending, StepState, Tasks, error_of, step_states, word_of
from pipeline.kubeflow.submission import pages
from pipeline.steps import StepStatus

FINISHED = ("succeeded", "skipped", "failed", "cancelled")
_GOOD = ("succeeded", "skipped")
_OWN_NAMESPACE = "kubeflow"  # default namespace of runs on a single-user server
_EARLIEST = datetime.datetime.min.replace(tzinfo=datetime.UTC)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunState:
    """A run.

    Attributes:
        name: as shown in the user interface.
        state: `pending`, `running`, `cancelling`, `paused`, or how it ended: `succeeded`, `skipped`,
            `failed`, `cancelled`.
        error: the server's message about a failure.
        started: time of creation, RFC 3339.
        finished: time of its end; empty while it runs.
        schedule_id: recurring run that started it; empty: started by a user.
        steps: in order of their start, each followed by those inside it.
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
        """The innermost failed step, which has a log."""
        failed = [s for s in self.steps if s.state == "failed"]
        return next((s for s in failed if not any(f.name.startswith(f"{s.name}/") for f in failed)), None)

    def failure(self) -> str:
        """Say in one line which step failed and why; empty without a failure."""
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
    """Return a run of the server as plain values.

    `tasks` are the pipeline's, from `step_tree`; empty if unknown.
    """
    cancelled = _cancelled_at(run)
    state = word_of(run.state)
    if state == "failed" and cancelled:
        # Argo marks a cancelled workflow as failed.
        state = "cancelled"
    details = (run.run_details and run.run_details.task_details) or []
    found = getattr(run, "tasks", ())
    ending = Ending(ended=state in FINISHED, cancelled=cancelled, failed=state == "failed")
    return RunState(
        run_id=run.run_id,
        name=run.display_name or "",
        state=state,
        error=error_of(run),
        started=_time(run.created_at),
        # The server reports 1970 as the end of an active run.
        finished=_time(run.finished_at) if run.finished_at and run.finished_at.year > 1970 else "",
        schedule_id=run.recurring_run_id or "",
        link=connection.link(f"runs/details/{run.run_id}"),
        namespace=connection.namespace or _OWN_NAMESPACE,
        steps=task_states(found, tasks, ending) if found else step_states(details, tasks, ending),
    )


def is_settled(run: Any) -> bool:
    """Tell whether the tasks of an ended run are up to date.

    The server stores the run's state before the tasks (2.17.0, `server/report_server.go:reportWorkflow`). For
    about 0.3 s the tasks are those of the previous report, in which at least the workflow is running. From
    3.0 on a pod writes its task before it ends.
    """
    if getattr(run, "tasks", ()):
        return True
    details = (run.run_details and run.run_details.task_details) or []
    return bool(details) and not any(detail.state == "RUNNING" for detail in details)


def _cancelled_at(run: Any) -> datetime.datetime | None:
    """Return when a user cancelled a run, unless it was retried since."""
    for entry in reversed(run.state_history or ()):
        if entry.state in ("CANCELING", "CANCELED"):
            return entry.update_time or _EARLIEST
        if entry.state in ("PENDING", "RUNNING"):
            return None
    return None


def _time(moment: datetime.datetime | None) -> str:
    return moment.isoformat(timespec="seconds") if moment else ""


_logger = logging.getLogger(__name__)

# A restart of the server takes a minute or two.
_PATIENCE_SECONDS = 180
_STOPPING = "cancelling"
# The tasks of an ended run follow within 0.34 s as measured; those of a very large one never do.
_SETTLING_LOOKS, _SETTLING_SECONDS = 8, 0.5


def list_runs(connection: Connection, limit: int) -> list[RunState]:
    """Return the newest runs of the namespace, newest first."""
    listed = pages(
        connection,
        "listing the runs",
        connection.client.list_runs,
        "runs",
        sort_by="created_at desc",
        namespace=connection.namespace,
    )
    return [run_state(connection, run, {}) for run in itertools.islice(listed, limit)]


def read_run(connection: Connection, run_id: str) -> RunState:
    """Return a run with its steps, updated after its end; ClusterError when it does not exist."""
    run = _get(connection, run_id)
    return _settled(connection, run, _steps_of(connection, run), time.sleep)


def _get(connection: Connection, run_id: str) -> Any:
    run = connection.call(f"reading the run {run_id}", connection.client.get_run, run_id=run_id)
    # kfp 2.17's model of a run drops them.
    run.tasks = read_tasks(connection, run_id)
    return run


def _settled(connection: Connection, run: Any, tasks: Tasks, sleep: Callable[[float], None]) -> RunState:
    """Return a run; after its end, read it again until its tasks are up to date."""
    for _ in range(_SETTLING_LOOKS):
        state = run_state(connection, run, tasks)
        if not state.ended or is_settled(run):
            return state
        sleep(_SETTLING_SECONDS)
        try:
            run = _get(connection, run.run_id)
        except ClusterError as e:
            if not e.transient:
                raise
    return run_state(connection, run, tasks)


def wait_for(
    connection: Connection,
    run_id: str,
    *,
    poll_seconds: float,
    limit_seconds: float,
    sleep: Callable[[float], None] = time.sleep,
    before: RunState | None = None,
) -> RunState:
    """Wait until a run has ended, logging each change of a step.

    Waiting continues through up to three minutes without an answer, such as a restart of the server. A limit
    of 0 means none. The states of steps in `before`, the run before a retry, are not logged again.

    Raises:
        ClusterError: after the limit; the run continues.
    """
    seen = {step.name: step.state for step in before.steps} if before else {}
    begun = last_answer = time.monotonic()
    steps: Tasks | None = None
    while True:
        try:
            run = _get(connection, run_id)
            steps = _steps_of(connection, run) if steps is None else steps
            last_answer = time.monotonic()
            state = _settled(connection, run, steps, sleep)
        except ClusterError as e:
            if not e.transient or time.monotonic() - last_answer > _PATIENCE_SECONDS:
                # For example, the token has expired. The run itself is not affected.
                _logger.warning("run | %s is no longer watched; see `detflow runs show %s`", run_id, run_id)
                raise
            _logger.warning("run | %s; waiting on", e.message)
        else:
            _log_changes(state, seen)
            if state.ended:
                return state
        if limit_seconds and time.monotonic() - begun > limit_seconds:
            raise ClusterError(
                f"the run {run_id} has not ended within {limit_seconds:g} s and continues: "
                f"`detflow runs show {run_id}` shows its state",
                where=connection.host,
            )
        sleep(poll_seconds)


def cancel(connection: Connection, run_id: str) -> RunState:
    """Cancel a run, unless it is being cancelled already.

    Raises:
        ConfigError: when it has ended.
        ClusterError: from the server.
    """
    state = read_run(connection, run_id)
    if state.ended:
        raise _ended_already(state)
    if state.state == _STOPPING:
        return state
    try:
        connection.call(f"stopping the run {run_id}", connection.client.terminate_run, run_id=run_id)
    except ClusterError as e:
        state = read_run(connection, run_id)
        if state.ended:
            raise _ended_already(state) from e
        # The server answers 400, 'Row not found', if the run was cancelled concurrently.
        if state.state == _STOPPING:
            return state
        if e.status >= 500 and "not found" in e.message:
            raise ClusterError(
                "the cluster no longer has the workflow of this run, which was deleted while it was"
                f" {state.state}, perhaps with its schedule. It no longer runs; archive or delete it in the"
                " user interface",
                where=run_id,
                status=e.status,
            ) from e
        raise
    return read_run(connection, run_id)


def _ended_already(state: RunState) -> ConfigError:
    ended = {"failed": "has failed", "succeeded": "has succeeded"}.get(state.state, f"was {state.state}")
    return ConfigError(f"the run {ended} already; nothing to stop", where=state.run_id)


def retry(connection: Connection, run_id: str) -> RunState:
    """Retry the failed steps of a run; results of the others are kept. Return the run before the retry.

    Raises:
        ConfigError: when it has not failed.
        ClusterError: from the server.
    """
    state = read_run(connection, run_id)
    if state.state not in ("failed", "cancelled"):
        raise ConfigError(
            f"only a failed or cancelled run can be retried, this one is {state.state}; submit a new one",
            where=run_id,
        )
    connection.call(f"retrying the run {run_id}", connection.client.runs.run_service_retry_run, run_id=run_id)
    return state


_ADVISED = "waiting for its pod, and it was said where to look"


def _log_changes(state: RunState, seen: dict[str, str]) -> None:
    for step in state.steps:
        if step.state == StepStatus.WAITING and seen.get(step.name) == StepStatus.WAITING:
            seen[step.name] = _ADVISED
            _logger.warning("step | %s", state.where_to_look(step))
        elif step.state == StepStatus.WAITING and seen.get(step.name) == _ADVISED:
            continue
        elif seen.get(step.name, StepStatus.PENDING) != step.state:
            seen[step.name] = step.state
            if step.state == StepStatus.PENDING:  # the retry starts it again
                continue
            took = f" in {step.seconds:.0f} s" if step.seconds is not None else ""
            again = f", attempt {step.attempts}" if step.attempts > 1 else ""
            _logger.info("step | %s %s%s%s", step.name, step.state, took, again)
    if not state.steps and seen.get("") != state.state:
        # A server that reports no steps still reports the run.
        seen[""] = state.state
        _logger.info("run | %s", state.state)


def _steps_of(connection: Connection, run: Any) -> Tasks:
    """Return the pipeline's tasks; empty if the server does not return the pipeline."""
    if run.pipeline_spec:
        return step_tree(run.pipeline_spec)
    reference = run.pipeline_version_reference
    if not reference or not reference.pipeline_version_id:
        return {}
    try:
        version = connection.call(
            "reading the pipeline of the run",
            connection.client.get_pipeline_version,
            reference.pipeline_id,
            reference.pipeline_version_id,
        )
    except ClusterError as e:
        if e.status != 404:
            raise
        return {}  # the version was deleted
    return step_tree(version.pipeline_spec or {})
