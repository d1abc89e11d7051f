"""Nodes of a cell in EfficientDet's feature networks.

A cell starts from one map per level, and each node adds earlier maps. A level's output is its last node, or
its input if it has no node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from detection_core.errors import Problem


class Node(NamedTuple):
    """A sum of maps.

    Attributes:
        level: of the sum; its stride is 2^level.
        inputs: indices into the cell's inputs, finest first, followed by the earlier nodes.
    """

    level: int
    inputs: tuple[int, ...]


class _Cell:
    """The maps of a cell while nodes are added."""

    def __init__(self, low: int, high: int) -> None:
        self.nodes: list[Node] = []
        self.inputs = {level: level - low for level in range(low, high + 1)}
        self.last = dict(self.inputs)

    def add(self, level: int, *inputs: int) -> int:
        """Add a node and return its index; it becomes the last of its level."""
        self.nodes.append(Node(level, inputs))
        self.last[level] = len(self.inputs) + len(self.nodes) - 1
        return self.last[level]


def _bifpn(cell: _Cell, low: int, high: int) -> None:
    """Add nodes from the coarsest level to the finest and back, https://arxiv.org/abs/1911.09070."""
    for level in range(high - 1, low - 1, -1):
        cell.add(level, cell.inputs[level], cell.last[level + 1])
    for level in range(low + 1, high):
        cell.add(level, cell.inputs[level], cell.last[level], cell.last[level - 1])
    cell.add(high, cell.inputs[high], cell.last[high - 1])


def _qufpn(cell: _Cell, low: int, high: int) -> None:
    """Add a BiFPN, one in the opposite direction, and the sum of both at each level."""
    _bifpn(cell, low, high)
    first = dict(cell.last)
    cell.last = dict(cell.inputs)
    for level in range(low + 1, high + 1):
        cell.add(level, cell.inputs[level], cell.last[level - 1])
    for level in range(high - 1, low, -1):
        cell.add(level, cell.inputs[level], cell.last[level], cell.last[level + 1])
    cell.add(low, cell.inputs[low], cell.last[low + 1])
    second = dict(cell.last)
    for level in range(high, low - 1, -1):
        cell.add(level, first[level], second[level])


PYRAMIDS: Mapping[str, Callable[[_Cell, int, int], None]] = {
    "bifpn": _bifpn,
    "qufpn": _qufpn,
    "bifpn_dyn": _bifpn,
}
"""Name in google/automl's hyper-parameters to the function that adds the nodes."""


def named_nodes(name: str, low: int, high: int) -> tuple[Node, ...]:
    """Return the nodes of a feature network in `PYRAMIDS`, from the finest to a coarser level."""
    cell = _Cell(low, high)
    PYRAMIDS[name](cell, low, high)
    return tuple(cell.nodes)


def node_problems(nodes: Sequence[Node], low: int, high: int, path: str) -> Iterator[Problem]:
    """Find invalid nodes of a list in creation order."""
    for index, node in enumerate(nodes):
        if not low <= node.level <= high:
            text = f"expected a level from {low} to {high}, found {node.level}; change it"
            yield Problem(path=f"{path}[{index}].feat_level", message=text)
        made = high - low + 1 + index
        wrong = [place for place in node.inputs if not 0 <= place < made]
        if not node.inputs or wrong:
            found = f"found {wrong[0]}" if wrong else "found none"
            text = f"expected places from 0 to {made - 1}, the maps that are there before it, {found}"
            yield Problem(path=f"{path}[{index}].inputs_offsets", message=f"{text}; change them")
