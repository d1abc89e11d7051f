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

from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.step_state import (
    MEASURED,
    NEVER_BEGUN,
    Ending,
    StepState,
    Tasks,
    error_of,
    fnv,
    seconds_of,
    settled,
    word_of,
)
from pipeline.steps import StepStatus

TASKS_SINCE = "3.0"
"""First server version with tasks of its runs; 2.18 still lists Argo's nodes."""

Task = Mapping[str, Any]

# Maximum that the server takes (`apiserver/server/list_request_util.go:37`).
_PAGE = 200
_LOST = "its container ended without a report, killed (out of memory?) or never started; see the pod's events"
# The launcher's words for a container that failed; its log says why.
_EXIT = re.compile(r"(failed to execute component: )+exit status \d+")
# Workflow, and hash of the node, in a pod's name; see `step_state`.
_POD = re.compile(r"(.+)-(?:retry-)?system-(?:container-impl|container-driver|dag-driver|importer)-(\d+)")
# Suffixes of Argo's attempts; empty where nothing is retried.
_ATTEMPTS = ("", "(0)", "(1)", "(2)")


def read_tasks(connection: Connection, run_id: str) -> list[Task]:
    """Return the tasks of a run as the server's JSON, none from a server before 3.0."""
    if connection.is_before(TASKS_SINCE):
        return []
    path = f"/apis/v2beta1/runs/{urllib.parse.quote(run_id, safe='')}/tasks"
    found: list[Task] = []
    token = ""
    while True:
        query = urllib.parse.urlencode({"page_size": _PAGE, "page_token": token})
        try:
            answer = json.loads(connection.get_text(f"reading the steps of {run_id}", f"{path}?{query}"))
            found += answer.get("tasks") or ()
        except ClusterError as e:
            if e.status == 404:  # an older server that does not tell its version
                return []
            raise
        except (ValueError, AttributeError) as e:
            raise ClusterError("expected a run's tasks, found a page", where=connection.host) from e
        token = answer.get("next_page_token") or ""
        if not token:
            return found


def task_states(found: Sequence[Task], tasks: Tasks, ending: Ending) -> tuple[StepState, ...]:
    """Return the steps of a run, each followed by those inside it; `tasks` as in `step_states`."""
    below: dict[str, list[Task]] = collections.defaultdict(list)
    for task in sorted(found, key=lambda t: t.get("create_time") or ""):
        below[task.get("parent_task_id") or ""].append(task)
    root = next(iter(below[""]), {}).get("task_id", "")

    def inside(parent: str, expected: Tasks, prefix: str, depth: int) -> Iterator[StepState]:
        for task in below[parent] if parent else ():
            name = task["name"]
            index = (task.get("type_attributes") or {}).get("iteration_index")
            label = name if index is None else f"iteration-{index}/{name}"
            step = _step(task, prefix + label, depth, ending)
            yield step
            if below[task["task_id"]] or step.state not in NEVER_BEGUN:
                yield from inside(task["task_id"], expected.get(name) or {}, f"{step.name}/", depth + 1)
        made = {task["name"] for task in below[parent]} if parent else set()
        state = StepStatus.NOT_RUN if ending.ended else StepStatus.PENDING
        yield from (StepState(name=prefix + n, depth=depth, state=state) for n in expected if n not in made)

    return tuple(inside(root, tasks, "", 0))


def _step(task: Task, name: str, depth: int, ending: Ending) -> StepState:
    message = _EXIT.sub("", (task.get("status_metadata") or {}).get("message", ""))
    detail = types.SimpleNamespace(
        start_time=_time(task.get("create_time")),
        end_time=_time(task.get("end_time")),
        error=types.SimpleNamespace(message=message),
    )
    state = settled(word_of(task.get("state")), detail, ending)
    error = error_of(detail)
    if state == StepStatus.UNKNOWN and ending.failed:
        state, error = StepStatus.FAILED, error or _LOST
    pods = {kind: [p["name"] for p in task.get("pods") or () if p["type"] == kind] for kind in _KINDS}
    driver = state == StepStatus.FAILED and error != _LOST and not pods["EXECUTOR"]
    workflow = next((m[1] for m in map(_POD.fullmatch, pods["DRIVER"]) if m), "")
    known = pods["DRIVER" if driver else "EXECUTOR"][::-1] or _executors(task, pods["DRIVER"])
    return StepState(
        name=name,
        depth=depth,
        state=state,
        seconds=seconds_of(detail) if state in MEASURED else None,
        error=error,
        pods=tuple(itertools.chain.from_iterable(map(_names, known))),
        attempts=0 if state in NEVER_BEGUN else len(pods["EXECUTOR"]) or 1,
        driver=driver,
        workflow=workflow,
    )


_KINDS = ("DRIVER", "EXECUTOR")


def _names(pod: str) -> Iterator[str]:
    """Yield the id of a pod's node, which the archive uses, and its name."""
    match = _POD.fullmatch(pod)
    yield from (f"{match[1]}-{match[2]}", pod) if match else (pod,)


def _executors(task: Task, drivers: Sequence[str]) -> list[str]:
    """Return possible names of the container's pod while the server has none, last attempt first.

    Driver and container are nodes of one graph. The hash in the driver's pod tells which attempt of it.
    """
    match = next(filter(None, map(_POD.fullmatch, drivers)), None)
    *graphs, last = str(task.get("scope_path") or "").split(".")
    if not match or task.get("type") != "RUNTIME":
        return []
    around = [match[1]]
    for graph in graphs:
        around = [f"{name}{attempt}.{graph}" for name in around for attempt in _ATTEMPTS]
    around = [f"{name}{attempt}.{last}" for name in around for attempt in _ATTEMPTS]
    mine = [(n, a) for n in around for a in _ATTEMPTS if fnv(f"{n}-driver{a}") == int(match[2])]
    return [
        f"{match[1]}-system-container-impl-{fnv(f'{name}{graph}.executor{attempt}')}"
        for name, driver in mine
        for graph in (("(0)", "(1)") if driver else ("",))
        for attempt in (_ATTEMPTS[:0:-1] if driver else ("",))
    ]


def _time(text: str | None) -> datetime.datetime | None:
    return datetime.datetime.fromisoformat(text) if text else None
