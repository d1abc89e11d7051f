"""Reconstruct the tree of Argo's nodes from Kubeflow's details of a run.

Kubeflow (2.17, `backend/src/common/util/workflow.go:NodeStatuses`) gives one detail for each node, in no
order: its display name, state, times, and the ids of its children. It omits the node's id and its parent.

Argo's id of a node is the workflow's name and the FNV-1a hash of the node's full name. A full name is the
graph's full name, a dot and the display name; attempts append `(0)`, `(1)`, ... So every possible full name
is hashed; a node exists if its id is some node's child.
"""

from __future__ import annotations

import collections
import datetime
import re
from collections.abc import Sequence
from typing import Any

_ATTEMPT = re.compile(r"\(\d+\)$")
_NEVER = datetime.datetime.max.replace(tzinfo=datetime.UTC)
_OFFSET, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF

_Times = tuple[datetime.datetime, datetime.datetime]


def node_id(workflow: str, name: str) -> str:
    """Return Argo's id of the node with a full name."""
    return f"{workflow}-{_fnv(name)}"


class NodeTree:
    """The nodes of a workflow by full name.

    Attributes:
        workflow: name of the workflow; empty if the details do not list Argo's nodes.
    """

    def __init__(self, details: Sequence[Any]) -> None:
        ids = {child.pod_name for d in details for child in d.child_tasks or () if child.pod_name}
        named = [i.rpartition("-") for i in ids]
        self.workflow = next((head for head, _, digits in named if head and digits.isdigit()), "")
        self._details: dict[str, Any] = {}
        self._inside: dict[str, list[str]] = collections.defaultdict(list)
        self._attempts: dict[str, list[str]] = collections.defaultdict(list)
        if self.workflow:
            labels = {d.display_name for d in details if d.display_name}
            self._find(labels, {int(digits) for _, _, digits in named if digits.isdigit()})
            self._match(details)

    def detail(self, name: str) -> Any:
        """Return the server's details of a node; None without details."""
        return self._details.get(name)

    def attempts(self, name: str) -> list[str]:
        """Return the full names of a node's attempts in order; empty if it has no retries."""
        return self._attempts[name]

    def last(self, name: str) -> str:
        """Return the full name of a node's last attempt, or the node itself without attempts."""
        return (self._attempts[name] or [name])[-1]

    def inside(self, graph: str) -> list[str]:
        """Return the full names of the nodes in a graph, without their attempts."""
        return self._inside[graph]

    def _find(self, labels: set[str], hashes: set[int]) -> None:
        """Find all full names whose hash is the id of a listed child."""
        labels |= {_ATTEMPT.sub("", label) for label in labels}
        queue = collections.deque([self.workflow])
        while queue:
            name = queue.popleft()
            hashed, attempts = _fnv(name), self._attempts[name]
            while _fnv(f"({len(attempts)})", hashed) in hashes:
                attempts.append(f"{name}({len(attempts)})")
            found = {label for label in labels if _fnv(f".{label}", hashed) in hashes}
            again = {label for label in found if _ATTEMPT.sub("", label) in found - {label}}
            self._inside[name] = [f"{name}.{label}" for label in sorted(found - again)]
            queue += [*attempts, *self._inside[name]]

    def _match(self, details: Sequence[Any]) -> None:
        """Match details to nodes; many nodes share a display name, such as `executor`."""
        below = [*self._attempts.values(), *self._inside.values()]
        names = [self.workflow, *(name for found in below for name in found)]
        ids = {node_id(self.workflow, name): name for name in names}
        by_label: dict[str, list[str]] = collections.defaultdict(list)
        for name in names:
            by_label[name[len(self._graph(name)) :].lstrip(".")].append(name)
        undecided: dict[str, list[Any]] = collections.defaultdict(list)
        for detail in details:
            children = [ids[c.pod_name] for c in detail.child_tasks or () if c.pod_name in ids]
            fitting = by_label[detail.display_name or ""]
            sure = fitting if len(fitting) == 1 else [n for n in fitting if self._is_parent(n, children)]
            if len(sure) == 1:
                self._details[sure[0]] = detail
            else:
                undecided[detail.display_name or ""].append(detail)
        # A node begins and ends within its graph, so times distinguish the remaining nodes.
        for label, left in undecided.items():
            free = [n for n in by_label[label] if n not in self._details]
            free.sort(key=lambda n: (self._times_around(n), n))
            self._details.update(zip(free, sorted(left, key=_times), strict=False))

    def _graph(self, name: str) -> str:
        """Return the full name of a node's graph; empty for the workflow itself."""
        return name.rpartition(".")[0] if "." in name[len(self.workflow) :] else ""

    def _is_parent(self, name: str, children: Sequence[str]) -> bool:
        """Tell whether a node has these children: its attempts, or the first nodes of its graph."""
        return any(c in self._attempts[name] or c in self._inside[name] for c in children)

    def _times_around(self, name: str) -> _Times:
        around = _ATTEMPT.sub("", name)
        while around and (around == name or around not in self._details):
            around = self._graph(_ATTEMPT.sub("", around))
        return _times(self._details[around]) if around else (_NEVER, _NEVER)


def _times(detail: Any) -> _Times:
    begin = detail.start_time or detail.create_time or _NEVER
    return begin, (detail.end_time if detail.end_time and detail.end_time >= begin else _NEVER)


def _fnv(text: str, state: int = _OFFSET) -> int:
    """Return the 32-bit FNV-1a hash of a text, continued from a state."""
    for byte in text.encode():
        state = ((state ^ byte) * _PRIME) & _MASK
    return state
