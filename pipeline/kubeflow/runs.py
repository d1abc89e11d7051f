"""Runs on the server: their steps, waiting for them, stopping and repeating them."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from typing import Any

from detection_core.errors import ConfigError
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.package import step_tree
from pipeline.kubeflow.run_state import RunState, is_settled, run_state
from pipeline.kubeflow.step_state import Tasks
from pipeline.kubeflow.submission import pages
from pipeline.step_states import StepStatus

_logger = logging.getLogger(__name__)

# A server that restarts is away for a minute or two.
_PATIENCE_SECONDS = 180
_STOPPING = "cancelling"
# The tasks of a run that has ended follow within 0.34 s as measured; those of a very large one never do.
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
    """Return a run with its steps; of one that has just ended, once its steps are those of the end.

    Raises:
        ClusterError: when there is none, or from the server.
    """
    run = _get(connection, run_id)
    return _settled(connection, run, _steps_of(connection, run), time.sleep)


def _get(connection: Connection, run_id: str) -> Any:
    return connection.call(f"reading the run {run_id}", connection.client.get_run, run_id=run_id)


def _settled(connection: Connection, run: Any, tasks: Tasks, sleep: Callable[[float], None]) -> RunState:
    """Return the state of a run, read again after its end until its tasks are those of the end."""
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

    Waiting continues through up to three minutes without an answer, such as a restart of the server.

    Args:
        connection: to the server.
        run_id: of the run.
        poll_seconds: polling interval.
        limit_seconds: longest wait; 0: no limit.
        sleep: function that waits for a number of seconds.
        before: the run before it was retried; what its steps were then is not logged again.

    Raises:
        ClusterError: past the limit; the run continues.
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
                f"`detflow runs show {run_id}` tells how it does",
                where=connection.host,
            )
        sleep(poll_seconds)


def cancel(connection: Connection, run_id: str) -> RunState:
    """Stop a run; does nothing if it is being stopped already.

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
        # The server answers 400, 'Row not found', if the run was stopped concurrently.
        if state.state == _STOPPING:
            return state
        if e.status >= 500 and "not found" in e.message:
            raise ClusterError(
                "the cluster no longer has the workflow of this run, which was deleted while it was "
                f"{state.state}, perhaps with its schedule: nothing of it runs, though Kubeflow will never "
                "say so; archive or delete it in the user interface",
                where=run_id,
                status=e.status,
            ) from e
        raise
    return read_run(connection, run_id)


def _ended_already(state: RunState) -> ConfigError:
    ended = {"failed": "has failed", "succeeded": "has succeeded"}.get(state.state, f"was {state.state}")
    return ConfigError(f"the run {ended} already; nothing to stop", where=state.run_id)


def retry(connection: Connection, run_id: str) -> RunState:
    """Retry the failed steps of a run; results of the others are kept.

    Returns:
        The run as it was before.

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
            if step.state == StepStatus.PENDING:  # it will be begun once more
                continue
            took = f" in {step.seconds:.0f} s" if step.seconds is not None else ""
            again = f", attempt {step.attempts}" if step.attempts > 1 else ""
            _logger.info("step | %s %s%s%s", step.name, step.state, took, again)
    if not state.steps and seen.get("") != state.state:
        # A server that reports no steps still reports the run.
        seen[""] = state.state
        _logger.info("run | %s", state.state)


def _steps_of(connection: Connection, run: Any) -> Tasks:
    """Return the pipeline's tasks; empty where the server does not give the pipeline."""
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
        return {}  # a version that was deleted since
    return step_tree(version.pipeline_spec or {})
