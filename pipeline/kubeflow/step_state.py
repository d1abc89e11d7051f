"""The steps of a run as plain values, from Kubeflow's details of Argo's nodes.

Kubeflow adds to each step a driver, which prepares it, and an executor, its container. A condition, a loop or
a pipeline used as a step is a graph of steps. Argo retries failed nodes.

Kubeflow (2.17, `backend/src/common/util/workflow.go:NodeStatuses`) gives one detail for each node, in no
order: its display name, state, times, and the ids of its children. It omits the node's id and its parent.

Argo's id of a node is the workflow's name and the FNV-1a hash of the node's full name. A full name is the
graph's full name, a dot and the display name; attempts append `(0)`, `(1)`, ... So every possible full name
is hashed; a node exists if its id is some node's child.
"""

import collections
import dataclasses
import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.steps import StepStatus

_ATTEMPT = re.compile(r"\(\d+\)$")
_NEVER = datetime.datetime.max.replace(tzinfo=datetime.UTC)
_OFFSET, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF

_Times = tuple[datetime.datetime, datetime.datetime]


def node_id(workflow: str, name: str) -> str:
    """Return Argo's id of the node with a full name."""
    return f"{workflow}-{fnv(name)}"


class NodeTree:
    """The nodes of a workflow by full name, reconstructed from Kubeflow's details of a run.

    Attributes:
        workflow: name of the workflow; empty if the details do not list Argo's nodes.
        details: full name to the server's details of a node, if it has any.
        inside: full name of a graph to those of the nodes in it, without their attempts.
        attempts: full name of a node to those of its attempts in order; empty if it has no retries.
    """

    def __init__(self, details: Sequence[Any]) -> None:
        ids = {child.pod_name for d in details for child in d.child_tasks or () if child.pod_name}
        named = [i.rpartition("-") for i in ids]
        self.workflow = next((head for head, _, digits in named if head and digits.isdigit()), "")
        self.details: dict[str, Any] = {}
        self.inside: dict[str, list[str]] = collections.defaultdict(list)
        self.attempts: dict[str, list[str]] = collections.defaultdict(list)
        if self.workflow:
            labels = {d.display_name for d in details if d.display_name}
            self._find(labels, {int(digits) for _, _, digits in named if digits.isdigit()})
            self._match(details)

    def last(self, name: str) -> str:
        """Return the full name of a node's last attempt, or the node itself without attempts."""
        return (self.attempts[name] or [name])[-1]

    def _find(self, labels: set[str], hashes: set[int]) -> None:
        """Find all full names whose hash is the id of a listed child."""
        labels |= {_ATTEMPT.sub("", label) for label in labels}
        queue = collections.deque([self.workflow])
        while queue:
            name = queue.popleft()
            hashed, attempts = fnv(name), self.attempts[name]
            while fnv(f"({len(attempts)})", hashed) in hashes:
                attempts.append(f"{name}({len(attempts)})")
            found = {label for label in labels if fnv(f".{label}", hashed) in hashes}
            again = {label for label in found if _ATTEMPT.sub("", label) in found - {label}}
            self.inside[name] = [f"{name}.{label}" for label in sorted(found - again)]
            queue += [*attempts, *self.inside[name]]

    def _match(self, details: Sequence[Any]) -> None:
        """Match details to nodes; many nodes share a display name, such as `executor`."""
        below = [*self.attempts.values(), *self.inside.values()]
        names = [self.workflow, *(name for found in below for name in found)]
        ids = {node_id(self.workflow, name): name for name in names}
        by_label: dict[str, list[str]] = collections.defaultdict(list)
        for name in names:
            by_label[name[len(self._graph(name)) :].lstrip(".")].append(name)
        undecided: dict[str, list[Any]] = collections.defaultdict(list)
        for detail in details:
            children = [ids[c.pod_name] for c in detail.child_tasks or () if c.pod_name in ids]
            fitting = by_label[detail.display_name or ""]
            sure = fitting
            if len(fitting) > 1:
                near = {n: {*self.attempts[n], *self.inside[n]} for n in fitting}
                sure = [n for n in fitting if not near[n].isdisjoint(children)]
            if len(sure) == 1:
                self.details[sure[0]] = detail
            else:
                undecided[detail.display_name or ""].append(detail)
        # A node begins and ends within its graph, so times distinguish the remaining nodes.
        for label, left in undecided.items():
            free = [n for n in by_label[label] if n not in self.details]
            free.sort(key=lambda n: (self._times_around(n), n))
            self.details.update(zip(free, sorted(left, key=_times), strict=False))

    def _graph(self, name: str) -> str:
        """Return the full name of a node's graph; empty for the workflow itself."""
        return name.rpartition(".")[0] if "." in name[len(self.workflow) :] else ""

    def _times_around(self, name: str) -> _Times:
        around = _ATTEMPT.sub("", name)
        while around and (around == name or around not in self.details):
            around = self._graph(_ATTEMPT.sub("", around))
        return _times(self.details[around]) if around else (_NEVER, _NEVER)


def _times(detail: Any) -> _Times:
    begin = detail.start_time or detail.create_time or _NEVER
    return begin, (detail.end_time if detail.end_time and detail.end_time >= begin else _NEVER)


def fnv(text: str, state: int = _OFFSET) -> int:
    """Return the 32-bit FNV-1a hash of a text, continued from a state."""
    for byte in text.encode():
        state = ((state ^ byte) * _PRIME) & _MASK
    return state


Tasks = Mapping[str, Any]  # a task to the tasks inside it

_DRIVER = "-driver"
NEVER_BEGUN = (StepStatus.PENDING, StepStatus.CACHED, StepStatus.SKIPPED, StepStatus.NOT_RUN)
MEASURED = (StepStatus.SUCCEEDED, StepStatus.FAILED, StepStatus.CANCELLED)
_STARTED = (StepStatus.RUNNING, StepStatus.FAILED, StepStatus.CANCELLING)
_WORDS = {
    "": StepStatus.PENDING,
    "RUNTIME_STATE_UNSPECIFIED": StepStatus.PENDING,
    "CANCELED": StepStatus.CANCELLED,
    "CANCELING": StepStatus.CANCELLING,
}
_STEP_WORDS = frozenset(StepStatus)
# Argo names a pod by workflow, template and node. These are the templates of Kubeflow's compiler
# (`backend/src/v2/compiler/argocompiler`: container.go, dag.go, importer.go).
_EXECUTOR_PODS = ("system-container-impl", "retry-system-container-impl", "system-importer")
_DRIVER_PODS = ("system-container-driver", "system-dag-driver")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepState:
    """A step of a run.

    Attributes:
        name: name of the task; with the names of surrounding graphs and slashes as a prefix.
        depth: number of surrounding graphs.
        state: a `StepStatus`.
        seconds: how long it took; None if it has not ended or never started.
        attempts: number of starts.
        error: the server's message about a failure.
        pods: possible names of the pods with its log, most likely first.
        driver: whether the pods belong to Kubeflow's driver, which failed before the step began.
        workflow: name of Argo's workflow; empty if unknown.
    """

    name: str
    state: str
    seconds: float | None = None
    error: str = ""
    pods: tuple[str, ...] = ()
    depth: int = 0
    attempts: int = 0
    driver: bool = False
    workflow: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ending:
    """Whether the run has ended or failed, and when its cancellation began; None: not cancelled."""

    ended: bool
    cancelled: datetime.datetime | None
    failed: bool = False


def word_of(state: str | None) -> str:
    """Translate a state of Kubeflow into a `StepStatus`, if it has one."""
    word = _WORDS.get(state or "", (state or "").lower())
    return StepStatus(word) if word in _STEP_WORDS else word


def error_of(thing: Any) -> str:
    """Return the server's message about a failed run or task, in one line."""
    message = thing.error.message if thing.error else ""
    return " ".join((message or "").split())


def step_states(details: Sequence[Any], tasks: Tasks, ending: Ending) -> tuple[StepState, ...]:
    """Return the steps of a run, each followed by those inside it.

    `details` are the run's tasks, from the client; `tasks` the pipeline's, empty if unknown.
    """
    tree = NodeTree(details)
    if tree.workflow:
        entry = tree.last(tree.workflow)
        return tuple(_Steps(tree, ending).of_run(entry, tasks))
    left = tasks if ending.ended and details else ()
    return tuple(StepState(name=name, state=StepStatus.NOT_RUN) for name in left)


class _Steps:
    def __init__(self, tree: NodeTree, ending: Ending) -> None:
        self._tree = tree
        self._ending = ending

    def of_run(self, entry: str, tasks: Tasks) -> Iterator[StepState]:
        root = f"{entry}.root"
        driver = self._tree.details.get(root + _DRIVER)
        # After a failed driver Argo omits the root; the server has no state for omitted nodes.
        failed = driver is not None and word_of(driver.state) == StepStatus.FAILED
        if failed or (not self._ending.ended and self._awaits_pod(root + _DRIVER)):
            yield self._step(root, "", 0)
        yield from self._inside(self._tree.last(root), tasks, "", 0)

    def _inside(self, graph: str, tasks: Tasks, prefix: str, depth: int) -> Iterator[StepState]:
        """Yield the steps in a graph, or the items of a loop."""
        labels = [_label(n) for n in self._tree.inside[graph]]
        loop = "iteration-driver" in labels
        if loop:
            names = dict.fromkeys(n for n in labels if n.startswith("iteration-iterations("))
        else:
            own = (n if n in tasks else n.removesuffix(_DRIVER) for n in labels)
            names = dict.fromkeys([*tasks, *own])
        for label in sorted(names, key=lambda n: self._begin(f"{graph}.{n}")):
            step = self._step(f"{graph}.{label}", prefix, depth)
            yield step
            body = self._body(f"{graph}.{label}")
            if step.state not in NEVER_BEGUN and not self._is_container(body):
                below = tasks if loop else tasks.get(label) or {}
                yield from self._inside(body, below, f"{step.name}/", depth + 1)

    def _body(self, name: str) -> str:
        """Return the graph of a step; for a loop's item, that of the repeated step."""
        inner = self._tree.last(name)
        item = f"{inner}.iteration-item"
        return self._tree.last(item) if item in self._tree.inside[inner] else inner

    def _is_container(self, graph: str) -> bool:
        return f"{graph}.executor" in self._tree.inside[graph]

    def _begin(self, name: str) -> datetime.datetime:
        known = (self._tree.details.get(n) for n in (name + _DRIVER, name))
        return next((d.start_time for d in known if d is not None and d.start_time), _NEVER)

    def _step(self, name: str, prefix: str, depth: int) -> StepState:
        # Argo's `iteration-iterations(0:0)` is the item `iteration-0` of a loop.
        label = re.sub(r"^iteration-iterations\((\d+):.*\)\Z", r"iteration-\1", _label(name))
        tree = self._tree
        detail, driver = tree.details.get(name), tree.details.get(name + _DRIVER)
        state = word_of(detail.state) if detail is not None else StepStatus.PENDING
        if state == StepStatus.PENDING and driver is not None and word_of(driver.state) == StepStatus.FAILED:
            return StepState(
                name=prefix + label,
                depth=depth,
                state=settled(StepStatus.FAILED, driver, self._ending),
                error=error_of(driver) or "Kubeflow's driver could not prepare it",
                driver=True,
                workflow=tree.workflow,
                pods=tuple(self._pods(name + _DRIVER, _DRIVER_PODS)),
                attempts=len(tree.attempts[name + _DRIVER]) or 1,
            )
        body = self._body(name)
        executor = f"{body}.executor" if self._is_container(body) else name
        if state == StepStatus.SUCCEEDED and self._is_cached(name, executor):
            state = StepStatus.CACHED
        state = settled(state, detail, self._ending)
        leaf = {"running": executor, "pending": name + _DRIVER}.get(state, "")
        if self._awaits_pod(leaf):
            state = StepStatus.WAITING
        return StepState(
            name=prefix + label,
            depth=depth,
            state=state,
            seconds=seconds_of(detail) if state in MEASURED else None,
            error=error_of(detail) if detail is not None else "",
            pods=tuple(self._pods(executor, _EXECUTOR_PODS)) if detail is not None else (),
            attempts=0 if state in NEVER_BEGUN else len(tree.attempts[executor]) or 1,
            workflow=tree.workflow,
        )

    def _awaits_pod(self, name: str) -> bool:
        """Tell whether a container waits for its pod: forever if an image, secret or node is missing."""
        leaf = name.endswith((".executor", _DRIVER))
        detail = self._tree.details.get(self._tree.last(name)) if leaf else None
        # Nodes that Argo omits have no state here.
        return detail is not None and detail.state == "PENDING"

    def _is_cached(self, name: str, executor: str) -> bool:
        """Tell whether the executor of a successful step was skipped by a cache hit."""
        tree = self._tree
        if not executor.endswith(".executor") or tree.attempts[executor]:
            return False
        detail = tree.details.get(executor)
        # Where Kubeflow's own retries are on, a container that ran has an attempt.
        return bool(tree.attempts[name + _DRIVER]) or (
            detail is not None and word_of(detail.state) == StepStatus.SKIPPED
        )

    def _pods(self, name: str, templates: Sequence[str]) -> Iterator[str]:
        """Yield the names of a node's pods, the last attempt first.

        Kubeflow's archive uses the node's id; its live log and user interface use the pod's name.
        """
        workflow = self._tree.workflow
        for attempt in reversed(self._tree.attempts[name] or [name]):
            node = node_id(workflow, attempt)
            yield node
            for template in templates:
                yield f"{workflow}-{template}-{node.rpartition('-')[2]}"


def settled(state: str, detail: Any, ending: Ending) -> str:
    """Return a step's state, corrected by the run's end."""
    if not ending.ended:
        return state
    if state == StepStatus.PENDING:
        return StepStatus.NOT_RUN
    begun_before_the_stop = (
        ending.cancelled
        and detail is not None
        and (not detail.end_time or detail.end_time.year <= 1970 or detail.end_time >= ending.cancelled)
    )
    if begun_before_the_stop and state in _STARTED:
        return StepStatus.CANCELLED
    return StepStatus.UNKNOWN if state in (StepStatus.RUNNING, StepStatus.CANCELLING) else state


def _label(name: str) -> str:
    return name.rpartition(".")[2]


def seconds_of(detail: Any) -> float | None:
    """Return how long a node took; None if unknown."""
    if detail is None or not detail.end_time or not detail.start_time or detail.end_time < detail.start_time:
        return None
    return float((detail.end_time - detail.start_time).total_seconds())
