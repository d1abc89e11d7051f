"""What Kubeflow tells of the nodes of a workflow: Argo and Kubeflow's compiler as a model, for the tests.

From the sources, and agreeing with what a run on Kubeflow Pipelines 2.17.0 with Argo 4.0.5 showed:

- the graphs around and in a step: `backend/src/v2/compiler/argocompiler` (container.go, dag.go);
- a node for what is retried and one for each attempt, whose name ends in `(0)`, `(1)`, and display names
  without the graph's name: Argo's `workflow/controller/operator.go` (executeTemplate, initializeNode);
- ids by FNV-1a of the full name: Argo's `Workflow.NodeID`;
- what comes next hangs below the last node of what it depends on: Argo's `workflow/controller/dag.go`
  (connectDependencies);
- a detail has a UUID for an id, no parent, no pod, no error, and its children by their node ids:
  `backend/src/apiserver/server/api_converter.go` (toModelTask, toApiPipelineTaskDetail);
- Omitted has no state in Kubeflow, a node that has not ended bears the year 1 as its end: the same.
"""

from __future__ import annotations

import dataclasses
import datetime
import random
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import kfp_server_api

from pipeline.kubeflow.step_state import StepState

STATES = {
    "Pending": "PENDING", "Running": "RUNNING", "Succeeded": "SUCCEEDED", "Skipped": "SKIPPED",
    "Failed": "FAILED", "Error": "FAILED", "Omitted": "RUNTIME_STATE_UNSPECIFIED",
}  # fmt: skip
BEGIN = datetime.datetime(2026, 11, 1, 1, tzinfo=datetime.UTC)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """What becomes of one task.

    Attributes:
        name: of the task.
        phase: of the step: an Argo phase; `Cached`; `Unprepared` where its driver fails; `Waiting` where its
            pod cannot start, which leaves the executor's attempt Pending for ever (seen on 2.17.0);
            `Unscheduled` where that of its driver cannot; `Killed` where its container is, with its launcher.
        failed_attempts: attempts of its container that failed before the last one.
        failed_drivers: attempts of its driver that failed before the last one.
        begin: minutes after the run's begin; each step takes half a minute.
        inside: of a condition, a loop's item or a pipeline used as a step.
        items: of a loop, the steps of each item.
    """

    name: str
    phase: str = "Succeeded"
    failed_attempts: int = 0
    failed_drivers: int = 0
    begin: int = 0
    inside: Sequence[Step] = ()
    items: Sequence[Sequence[Step]] = ()


@dataclasses.dataclass(kw_only=True)
class Node:
    name: str
    display: str
    phase: str
    begin: datetime.datetime
    end: datetime.datetime | None
    children: list[str]


class Workflow:
    """The nodes of one workflow.

    Attributes:
        name: of the workflow.
        retried: whether Kubeflow's own configuration retries errors, which makes every node one of attempts;
            so it is from 2.17 on.
        nodes: full name to node.
    """

    def __init__(self, name: str, *, retried: bool = True) -> None:
        self.name = name
        self.retried = retried
        self.nodes: dict[str, Node] = {}

    def run(
        self, steps: Sequence[Step], phase: str, *, failed_roots: int = 0, root_fails: bool = False
    ) -> Workflow:
        """Add the nodes of a run of a phase, in which the steps come one after the other.

        Of `failed_roots` attempts of the whole the first driver ended in an error; where `root_fails`, that
        of the last attempt, too: the root is Omitted then (seen on 2.17.0).
        """
        for _ in range(failed_roots):
            entry = self.begin_node(self.name, "", "Error", 0)
            self.add_leaf(f"{entry}.root-driver", entry, "Error", 0)
        entry = self.begin_node(self.name, "", phase, 0)
        if root_fails:
            after = self.add_leaf(f"{entry}.root-driver", entry, "Error", 0)
            self._add(f"{entry}.root", entry, "Omitted", 0, after=after)
            return self
        after = self.add_leaf(f"{entry}.root-driver", entry, "Succeeded", 0)
        root = self.begin_node(f"{entry}.root", entry, phase, 0, after=after)
        self._steps(root, steps)
        return self

    def details(self, run_id: str) -> list[dict]:
        """Return the run's task details as the server gives them: sorted by id, and so in no order."""
        details = []
        for id_, node in sorted((self.id(name), node) for name, node in self.nodes.items()):
            end = node.end.isoformat() if node.end else "0001-01-01T00:00:00+00:00"
            times = {"create_time": BEGIN.isoformat(), "start_time": node.begin.isoformat(), "end_time": end}
            unused = {"execution_id": "0", "inputs": {}, "outputs": {}, "parent_task_id": ""}
            task = {"run_id": run_id, "task_id": str(uuid.uuid5(uuid.NAMESPACE_OID, id_))}
            children = [{"pod_name": self.id(child)} for child in node.children]
            shown = {"display_name": node.display, "state": STATES[node.phase], "child_tasks": children}
            details.append({**task, **times, **unused, **shown, "state_history": []})
        return details

    def id(self, name: str) -> str:
        """Return the id of a node."""
        hashed = 2166136261
        for byte in name.encode():
            hashed = ((hashed ^ byte) * 16777619) % 2**32
        return f"{self.name}-{hashed}"

    def pods(self) -> Mapping[str, str]:
        """Return the pod's name of each node that has one: of the last and the failed attempts alike."""
        found = {}
        for name in self.nodes:
            leaf = name.rpartition(".")[2]
            if f"{name}(0)" in self.nodes:
                continue
            template = {"executor": "system-container-impl", "root-driver": "system-dag-driver"}
            base = leaf.partition("(")[0]
            kind = template.get(base) or ("system-container-driver" if base.endswith("-driver") else "")
            if kind:
                found[name] = f"{self.name}-{kind}-{self.id(name).rpartition('-')[2]}"
        return found

    def node_of(self, task: str, *, driver: bool = False, attempt: int = -1) -> str:
        """Return the full name of the node that runs a task's container, or its driver's."""
        base = f"{task}-driver" if driver else "executor"
        found = []
        for name in self.pods():
            *_, parent, leaf = ["", *(part.partition("(")[0] for part in name.split("."))]
            if leaf == base and (driver or parent == task):
                found.append(name)
        return found[attempt]

    def _steps(self, graph: str, steps: Sequence[Step]) -> str:
        """Add steps of a graph one after the other and return the last of their nodes."""
        after = ""
        for step in steps:
            after = self._step(graph, step, after)
        return after

    def _step(self, graph: str, step: Step, after: str) -> str:
        name, phase = f"{graph}.{step.name}", step.phase
        if phase == "Omitted":
            after = self._add(f"{name}-driver", graph, "Omitted", step.begin, after=after)
            return self._add(name, graph, "Omitted", step.begin, after=after)
        if phase == "Unscheduled":
            return self.add_leaf(f"{name}-driver", graph, "Pending", step.begin, after=after)
        unprepared = phase == "Unprepared"
        ended, more = "Error" if unprepared else "Succeeded", {"failed": step.failed_drivers, "after": after}
        driver = self.add_leaf(f"{name}-driver", graph, ended, step.begin, **more)
        if unprepared or phase == "Skipped":
            return self._add(name, graph, "Omitted" if unprepared else phase, step.begin, after=driver)
        around = {"Cached": "Succeeded", "Waiting": "Running", "Killed": "Failed"}.get(phase, phase)
        inner = self.begin_node(name, graph, around, step.begin, after=driver)
        if step.items or step.inside:
            return self._loop(inner, step) if step.items else self._steps(inner, step.inside)
        executor = f"{inner}.executor"
        if phase == "Cached":
            return self._add(executor, inner, "Skipped", step.begin, after=inner)
        phase = {"Waiting": "Pending", "Killed": "Failed"}.get(phase, phase)
        return self.add_leaf(executor, inner, phase, step.begin, failed=step.failed_attempts, after=inner)

    def _loop(self, graph: str, step: Step) -> str:
        driver = self.add_leaf(f"{graph}.iteration-driver", graph, "Succeeded", step.begin, after=graph)
        group = self._add(f"{graph}.iteration-iterations", graph, step.phase, step.begin, after=driver)
        last = group
        for i, steps in enumerate(step.items):
            name = f"{graph}.iteration-iterations({i}:{i})"
            item = self.begin_node(name, graph, step.phase, step.begin, after=group)
            driver = f"{item}.iteration-item-driver"
            prepared = self.add_leaf(driver, item, "Succeeded", step.begin, after=item)
            inner = self.begin_node(f"{item}.iteration-item", item, step.phase, step.begin, after=prepared)
            last = self._steps(inner, steps)
        return last

    def begin_node(self, name: str, graph: str, phase: str, begin: int, after: str = "") -> str:
        """Add a graph and return the full name under which its nodes lie."""
        if name not in self.nodes:
            self._add(name, graph, phase, begin, after=after)
        self.nodes[name].phase = phase
        if not self.retried:
            return name
        attempt = f"{name}({len(self.nodes[name].children)})"
        self._add(attempt, graph, phase, begin)
        self.nodes[name].children.append(attempt)
        return attempt

    def add_leaf(
        self, name: str, graph: str, phase: str, begin: int, *, failed: int = 0, after: str = ""
    ) -> str:
        """Add what one pod does, and return the node below which what follows hangs."""
        self._add(name, graph, phase, begin, after=after)
        if not self.retried:
            return name
        self.nodes[name].phase = "Running" if phase == "Pending" else phase
        attempts = [*["Error"] * failed, phase]
        if phase == "Error":
            attempts = ["Error"] * 3  # a limit of two repetitions
        for i, one in enumerate(attempts):
            self._add(f"{name}({i})", graph, one, begin)
            self.nodes[name].children.append(f"{name}({i})")
        return f"{name}({len(attempts) - 1})"

    def _add(self, name: str, graph: str, phase: str, begin: int, *, after: str = "") -> str:
        started = BEGIN + datetime.timedelta(minutes=begin)
        ended = started + datetime.timedelta(seconds=0 if phase in ("Skipped", "Omitted") else 30)
        end = None if phase in ("Running", "Pending") else ended
        display = name.removeprefix(graph).lstrip(".") if graph else name
        self.nodes[name] = Node(name=name, display=display, phase=phase, begin=started, end=end, children=[])
        parent = after or (graph if "(" not in name[len(graph) :] else "")
        if parent and parent != name:
            self.nodes[parent].children.append(name)
        return name


def details_of(workflow: Workflow) -> list[Any]:
    """Return a workflow's details as the client gives them, in another order than they were made."""
    api = kfp_server_api.ApiClient()
    found = [api._ApiClient__deserialize(d, "V2beta1PipelineTaskDetail") for d in workflow.details("a-run")]
    random.Random(1).shuffle(found)
    return found


def steps_of(text: str) -> list[Step]:
    """Return steps that begin a minute after one another, each written as its name or `name:phase`."""
    return [
        Step(name=name, phase=ended or "Succeeded", begin=minute)
        for minute, (name, _, ended) in enumerate(part.partition(":") for part in text.split())
    ]


def listed(states: Sequence[StepState]) -> str:
    """Return the indented name and the state of each step, separated by commas."""
    return ", ".join(f"{'> ' * s.depth}{s.name.rpartition('/')[2]} {s.state}" for s in states)
