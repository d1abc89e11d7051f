"""The tasks that Kubeflow Pipelines 3 keeps of a run, as driver and launcher write them.

From the sources of kubeflow/pipelines#13986 at 6585b5143d, below `backend`, and agreeing with what its API
server, driver and launcher did with the digits workflow:

- fields, states and JSON names: `api/v2beta1/run.proto:407`, `src/apiserver/common/utils.go:153` (names of
  the proto; what has no value is left out, an int64 is a text);
- the root's driver makes the task ROOT, without a parent (`src/v2/driver/root_dag.go:55`); where it cannot,
  there is none;
- a step's driver makes its task as running, with its own pod (`src/v2/driver/container.go:83`), as cached
  (`:361`) or skipped (`:443`); where it fails, as failed with its error (`:132`);
- a group's driver makes the group's task (`src/v2/driver/dag.go:70`); tasks of a loop's item have its index;
- the launcher tells its pod and the end of the task together (`src/v2/component/launcher_v2.go:219`, `:301`):
  a container that is killed tells nothing, and an attempt that failed leaves the task failed until the next
  one ends;
- ROOT shows the name of the run (`src/v2/driver/root_dag.go:57`);
- what has not begun has no task; Argo's phases change none (`src/apiserver/server/report_server.go:51`);
- a retry of a run sets its failed and unfinished tasks to running, without pods
  (`src/apiserver/storage/task_store.go:1212`).
"""

import datetime
import uuid
from typing import Any

from tests.pipeline.kubeflow.argo_model import BEGIN, Step, Workflow

# Phase of a step to the state of its task.
STATES = {
    "Succeeded": "SUCCEEDED", "Skipped": "SKIPPED", "Failed": "FAILED", "Unprepared": "FAILED",
    "Running": "RUNNING", "Waiting": "RUNNING", "Killed": "RUNNING", "Cached": "CACHED",
}  # fmt: skip
MESSAGES = {
    "Failed": "failed to execute component: failed to execute component: exit status 1",
    "Unprepared": "driver.Container(pipelineName=digits) failed: no such secret",
}
_ENDED = ("SUCCEEDED", "FAILED", "CACHED", "SKIPPED")


def tasks_of(
    run_id: str, name: str, workflow: Workflow, steps: list[Step], phase: str
) -> list[dict[str, Any]]:
    """Return the tasks of a run of a name and a phase as JSON."""
    entry = _last(workflow, workflow.name)
    made = _Tasks(run_id, workflow)
    if f"{entry}.root" not in workflow.nodes or workflow.nodes[f"{entry}.root"].phase == "Omitted":
        return []
    driver = _last(workflow, f"{entry}.root-driver")
    state = STATES[phase]
    root = made.add("ROOT", "ROOT", "", "root", state, 0, [(driver, "DRIVER")])
    made.tasks[0] |= {"display_name": name, "type_attributes": {}}
    made.add_steps(steps, _last(workflow, f"{entry}.root"), root, "root", None)
    return made.tasks


class _Tasks:
    def __init__(self, run_id: str, workflow: Workflow) -> None:
        self.tasks: list[dict[str, Any]] = []
        self._run_id, self._workflow = run_id, workflow
        self._pods = workflow.pods()

    def add_steps(self, steps, graph: str, parent: str, scope: str, index: int | None) -> None:
        for step in steps:
            if step.phase not in ("Omitted", "Unscheduled"):
                self._add_step(step, graph, parent, f"{scope}.{step.name}", index)

    def _add_step(self, step: Step, graph: str, parent: str, scope: str, index: int | None) -> None:
        inner = _last(self._workflow, f"{graph}.{step.name}")
        pods = [(_last(self._workflow, f"{graph}.{step.name}-driver"), "DRIVER")]
        executor = f"{inner}.executor"
        attempts = [n for n in self._pods if n == executor or n.startswith(f"{executor}(")]
        told = [n for n in attempts if self._workflow.nodes[n].phase in ("Succeeded", "Failed", "Error")]
        if step.phase != "Killed":
            pods += [(name, "EXECUTOR") for name in sorted(told)]
        kind = "LOOP" if step.items else "DAG" if step.inside else "RUNTIME"
        phase = "Failed" if step.phase == "Running" and told else step.phase
        message = "" if kind != "RUNTIME" else MESSAGES.get(phase, "")
        state, known = STATES[phase], {"index": index, "message": message}
        added = self.add(step.name, kind, parent, scope, state, step.begin, pods, **known)
        if step.phase == "Skipped":
            return
        self.add_steps(step.inside if not step.items else (), inner, added, scope, None)
        for i, steps in enumerate(step.items):
            item = _last(self._workflow, f"{inner}.iteration-iterations({i}:{i})")
            body = _last(self._workflow, f"{item}.iteration-item")
            self.add_steps(steps, body, added, scope, i)

    def add(self, name, kind, parent, scope, state, begin, pods, *, index=None, message="") -> str:
        """Add a task and return its id; pods are nodes with their type."""
        begun = BEGIN + datetime.timedelta(minutes=begin)
        task = {
            "name": name, "display_name": name, "run_id": self._run_id, "scope_path": scope, "type": kind,
            "task_id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{parent}{scope}{index}")), "state": state,
            "pods": [{"name": self._pods[node], "uid": "u", "type": k} for node, k in pods],
            "create_time": _text(begun), "inputs": {}, "outputs": {},
        }  # fmt: skip
        if parent:
            task["parent_task_id"] = parent
        if index is not None:
            task["type_attributes"] = {"iteration_index": str(index)}
        if state in _ENDED:
            task["end_time"] = _text(begun + datetime.timedelta(seconds=30))
        if message:
            task["status_metadata"] = {"message": message}
        self.tasks.append(task)
        return task["task_id"]


def _last(workflow: Workflow, name: str) -> str:
    attempts = [f"{name}({i})" for i in range(9) if f"{name}({i})" in workflow.nodes]
    return (attempts or [name])[-1]


def _text(moment: datetime.datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
