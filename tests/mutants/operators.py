"""The faults: other operators, bounds and constants, removed statements, swapped arguments."""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_COMPARED = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.In: ast.NotIn, ast.Is: ast.IsNot}
_COMPARED |= {new: old for old, new in _COMPARED.items()}
_COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add}
_COMPUTED |= dict.fromkeys((ast.Div, ast.FloorDiv, ast.Mod, ast.Pow), ast.Mult)
_NOT_RUN = ("TYPE_CHECKING", "__name__ == '__main__'")
_Fault = tuple[ast.expr | ast.stmt, str, ast.AST]


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One fault in one place of a file.

    Attributes:
        file: relative to the root.
        line: of the place, from 1.
        kind: of the fault.
        start, end: of the replaced text, in bytes of the file.
        text: in its place.
        before: the replaced text.
    """

    file: str
    line: int
    kind: str
    start: int
    end: int
    text: str
    before: str

    def apply(self, content: bytes) -> bytes:
        """Put the fault into the file's content."""
        return content[: self.start] + self.text.encode() + content[self.end :]

    def __str__(self) -> str:
        before = " ".join(self.before.split())
        return f"{self.file}:{self.line} {self.kind}: {_short(before)} -> {_short(self.text)}"


def mutants_of(root: Path, file: str) -> list[Mutant]:
    """List every fault that can be put into a Python file."""
    content = (root / file).read_bytes()
    starts = [0]
    for row in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    found = []
    faults = (f for node in _executed(ast.parse(content)) for f in _FAULTS.get(type(node), _none)(node))
    for node, kind, new in faults:
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        before = content[start:end].decode()
        text = ast.unparse(new)
        if text != before:
            # Brackets keep the precedence that the place had.
            loose = isinstance(new, ast.BinOp | ast.Compare | ast.BoolOp | ast.UnaryOp)
            found.append(Mutant(file, node.lineno, kind, start, end, f"({text})" if loose else text, before))
    return found


def _none(node: ast.AST) -> Iterator[_Fault]:
    return iter(())


def _comparisons(node: ast.Compare) -> Iterator[_Fault]:
    for place, operator in enumerate(node.ops):
        operators: list[ast.cmpop] = list(node.ops)
        operators[place] = _COMPARED[type(operator)]()
        yield node, "comparison", _changed(node, ops=operators)


def _operators(node: ast.BinOp) -> Iterator[_Fault]:
    if type(node.op) in _COMPUTED and not _is_text(node):
        yield node, "operator", _changed(node, op=_COMPUTED[type(node.op)]())


def _booleans(node: ast.BoolOp) -> Iterator[_Fault]:
    yield node, "boolean", _changed(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())


def _negations(node: ast.UnaryOp) -> Iterator[_Fault]:
    if isinstance(node.op, ast.Not):
        yield node, "negation", node.operand


def _constants(node: ast.Constant) -> Iterator[_Fault]:
    if isinstance(node.value, bool):
        yield node, "constant", ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield node, "constant", ast.Constant(node.value + 1)
    elif isinstance(node.value, float):
        yield node, "constant", ast.Constant(node.value * 2 + 1)


def _arguments(node: ast.Call) -> Iterator[_Fault]:
    if len(node.args) > 1 and not any(isinstance(argument, ast.Starred) for argument in node.args[:2]):
        yield node, "arguments", _changed(node, args=[node.args[1], node.args[0], *node.args[2:]])


def _conditions(node: ast.If | ast.IfExp | ast.While) -> Iterator[_Fault]:
    if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
        yield node.test, "condition", ast.UnaryOp(op=ast.Not(), operand=node.test)


def _statements(node: ast.stmt) -> Iterator[_Fault]:
    yield node, "statement", ast.Pass()


_FAULTS: dict[type[ast.AST], Callable[[Any], Iterator[_Fault]]] = {
    ast.Compare: _comparisons,
    ast.BinOp: _operators,
    ast.BoolOp: _booleans,
    ast.UnaryOp: _negations,
    ast.Constant: _constants,
    ast.Call: _arguments,
    ast.If: _conditions,
    ast.IfExp: _conditions,
    ast.While: _conditions,
    ast.Expr: _statements,
    ast.AugAssign: _statements,
    ast.Raise: _statements,
}


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk what runs: no annotations, docstrings, messages of f-strings and blocks for type checkers."""
    yield tree
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "type_params", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            kept = ast.JoinedStr | ast.Import | ast.ImportFrom
            if not isinstance(child, ast.AST) or isinstance(child, kept):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            if not (isinstance(child, ast.If) and ast.unparse(child.test) in _NOT_RUN):
                yield from _executed(child)


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(isinstance(s, ast.JoinedStr) or isinstance(getattr(s, "value", None), str) for s in sides)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
