"""The steps of a run as plain values, from the tasks that Kubeflow Pipelines 3 keeps itself.

Until 2.18 a run's details list Argo's nodes, see `step_state`. Since kubeflow/pipelines#13986 the server has
one task for each step, and no details (6585b5143d, `backend/api/v2beta1/run.proto:407`). The step's driver
makes it as running (`v2/driver/container.go:88`); launcher or driver write how it ended. The launcher names
its pod only then (`v2/component/launcher_v2.go:222`). So a container that is killed leaves its task running.
"""

import collections
import datetime
import itertools
import json
import re
import types
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.kubeflow import step_state
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.step_state import Ending, StepState, Tasks
from pipeline.kubeflow.submission import pages
from pipeline.steps import StepStatus

TASKS_SINCE = "3.0"
"""First server version with tasks of its runs; 2.18 still lists Argo's nodes."""

Task = Mapping[str, Any]

_LOST = "its container ended without a report, killed (out of memory?) or never started; see the pod's events"
# The launcher's words for a container that failed; its log says why.
_EXIT = re.compile(r"(failed to execute component: )+exit status \d+")
# Workflow, and hash of the node, in a pod's name; see `step_state`.
_POD = re.compile(r"(.+)-(?:retry-)?system-(?:container-impl|container-driver|dag-driver|importer)-(\d+)")


def read_tasks(connection: Connection, run_id: str) -> list[Task]:
    """Return the tasks of a run as the server's JSON, none from a server before 3.0."""
    if connection.is_before(TASKS_SINCE):
        return []
    path = f"/apis/v2beta1/runs/{urllib.parse.quote(run_id, safe='')}/tasks"
    doing = f"reading the steps of {run_id}"

    def page(**query: Any) -> Any:
        text = connection.get_text(doing, f"{path}?{urllib.parse.urlencode(query)}")
        return types.SimpleNamespace(**{"tasks": (), "next_page_token": "", **json.loads(text)})

    try:
        return list(pages(connection, doing, page, "tasks"))
    except ClusterError as e:
        if e.status == 404:  # an older server that does not tell its version
            return []
        raise
    except (ValueError, TypeError) as e:
        raise ClusterError("expected a run's tasks, found a page", where=connection.host) from e


def task_states(found: Sequence[Task], tasks: Tasks, ending: Ending) -> tuple[StepState, ...]:
    """Return the steps of a run, each followed by those inside it; `tasks` as in `step_states`."""
    below: dict[str, list[Task]] = collections.defaultdict(list)
    for task in sorted(found, key=lambda t: str(t.get("create_time"))):
        below[task.get("parent_task_id") or ""].append(task)

    def inside(parent: str, expected: Tasks, prefix: str, depth: int) -> Iterator[StepState]:
        for task in below[parent]:
            index = (task.get("type_attributes") or {}).get("iteration_index")
            label = task["name"] if index is None else f"iteration-{index}/{task['name']}"
            step = _step(task, prefix + label, depth, ending)
            yield step
            if below[task["task_id"]] or step.state not in step_state.NEVER_BEGUN:
                inner = expected.get(task["name"]) or {}
                yield from inside(task["task_id"], inner, f"{step.name}/", depth + 1)
        state = StepStatus.NOT_RUN if ending.ended else StepStatus.PENDING
        left = [name for name in expected if name not in {task["name"] for task in below[parent]}]
        yield from (StepState(name=prefix + name, depth=depth, state=state) for name in left)

    return tuple(step for root in below[""] for step in inside(root["task_id"], tasks, "", 0))


def _step(task: Task, name: str, depth: int, ending: Ending) -> StepState:
    begin, end = (task.get(key) for key in ("create_time", "end_time"))
    message = _EXIT.sub("", (task.get("status_metadata") or {}).get("message", ""))
    detail = types.SimpleNamespace(
        start_time=datetime.datetime.fromisoformat(begin) if begin else None,
        end_time=datetime.datetime.fromisoformat(end) if end else None,
        error=types.SimpleNamespace(message=message),
    )
    error, state = step_state.error_of(detail), step_state.word_of(task.get("state"))
    state = step_state.settled(state, detail, ending)
    if state == StepStatus.UNKNOWN and ending.failed:
        state, error = StepStatus.FAILED, error or _LOST
    pods: dict[str, list[str]] = collections.defaultdict(list)
    for pod in reversed(task.get("pods") or ()):
        pods[pod["type"]].append(pod["name"])
    driver = next(filter(None, map(_POD.fullmatch, pods["DRIVER"])), None)
    by_driver = state == StepStatus.FAILED and error != _LOST and not pods["EXECUTOR"]
    known = pods["DRIVER" if by_driver else "EXECUTOR"]
    if driver and not known and state not in step_state.NEVER_BEGUN:
        known = _executors(task, driver)
    # The archive uses the id of a pod's node, everything else the name.
    names = [(f"{m[1]}-{m[2]}", pod) if (m := _POD.fullmatch(pod)) else (pod,) for pod in known]
    return StepState(
        name=name,
        depth=depth,
        state=state,
        seconds=step_state.seconds_of(detail) if state in step_state.MEASURED else None,
        error=error,
        pods=tuple(itertools.chain.from_iterable(names)),
        attempts=0 if state in step_state.NEVER_BEGUN else len(pods["EXECUTOR"]) or 1,
        driver=by_driver,
        workflow=driver[1] if driver else "",
    )


def _executors(task: Task, driver: re.Match[str]) -> list[str]:
    """Return possible names of the container's pod while the server has none, last attempt first.

    Driver and container are nodes of one graph. The hash in the driver's pod tells which attempt of it, if
    Argo retries anything.
    """
    parts = task.get("scope_path", "").split(".")
    found = []
    for attempts in itertools.product(("", "(0)", "(1)", "(2)"), repeat=len(parts) + 1):
        *around, own = attempts
        name = driver[1] + "".join(f"{a}.{part}" for a, part in zip(around, parts, strict=True))
        if step_state.fnv(f"{name}-driver{own}") == int(driver[2]):
            leaves = [f"(0).executor({i})" for i in (2, 1, 0)] if own else [".executor"]
            found += [f"{driver[1]}-system-container-impl-{step_state.fnv(name + leaf)}" for leaf in leaves]
    return found
