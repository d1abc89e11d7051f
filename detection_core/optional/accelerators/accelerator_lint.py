"""Finds the operations of a TensorFlow Lite graph that an accelerator does not support.

The table is accelerators.yaml: every row names the public document that it comes from.
"""

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import eq, le
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from detection_core.allowed_values import OPERATION
from detection_core.artifacts.flatbuffer_table import FlatbufferError, checked
from detection_core.artifacts.tflite_file import (
    TensorInfo,
    TFLiteGraph,
    damaged,
    network_operators,
    read_graph,
)
from detection_core.bounded.plain_yaml import read_yaml

TABLE = os.path.join(os.path.dirname(__file__), "accelerators.yaml")
_OPTIONS = {code: name for name, code in vars(schema.BuiltinOptions).items() if isinstance(code, int)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation in the form that the conditions need.

    Attributes:
        name: for example `CONV_2D`.
        version: of the operation.
        options: its builtin options in the schema; None if it has none.
        inputs: its tensors, without omitted optional ones.
        outputs: its tensors.
    """

    name: str
    version: int
    options: Any
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]

    @property
    def dtype(self) -> str:
        """Type of the first non-constant input."""
        computed = [tensor for tensor in self.inputs if not tensor.is_constant] or list(self.inputs)
        return computed[0].dtype if computed else ""


def _dilated(operation: Operation) -> int:
    options, kernel = operation.options, operation.inputs[1].shape
    factors = (options.DilationHFactor(), options.DilationWFactor())
    return max((side - 1) * factor + 1 for side, factor in zip(kernel[1:3], factors, strict=True))


def _scale_up(operation: Operation) -> float:
    (rows, columns), (new_rows, new_columns) = (
        tensor.shape[1:3] for tensor in (operation.inputs[0], operation.outputs[0])
    )
    return new_rows / rows if new_rows * columns == new_columns * rows else 0.0


def _longest_vector(operation: Operation) -> float:
    """Return the only side longer than 1; infinity if there are several."""
    sides = [side for side in operation.inputs[0].shape if side != 1]
    return math.inf if len(sides) > 1 else max(sides, default=1)


def _masks(*names: str) -> Callable[[Operation], bool]:
    """Return a function that is True if none of these masks of STRIDED_SLICE is set."""
    return lambda op: not any(getattr(op.options, name)() for name in names)


def _is_symmetric_int8(operation: Operation) -> bool:
    tensor = operation.inputs[0]
    return tensor.dtype != "int8" or (
        tensor.quantization is not None and not any(tensor.quantization.zero_point)
    )


CONDITIONS: Mapping[str, tuple[Callable[[Operation], Any], Callable[[Any, Any], bool]]] = {
    "no_activation": (
        lambda op: op.options.FusedActivationFunction() == schema.ActivationFunctionType.NONE,
        eq,
    ),
    "same_dilation": (lambda op: op.options.DilationHFactor() == op.options.DilationWFactor(), eq),
    "bias": (lambda op: len(op.inputs) > 2, eq),
    "most_inputs": (lambda op: len(op.inputs), le),
    "largest_version": (lambda op: op.version, le),
    "largest_stride": (lambda op: max(op.options.StrideH(), op.options.StrideW()), le),
    "largest_side": (lambda op: max(op.outputs[0].shape[1:3]), le),
    "largest_dilated_filter": (_dilated, le),
    "filter_width": (lambda op: op.inputs[1].shape[2], eq),
    "depth_multiplier": (lambda op: op.options.DepthMultiplier(), eq),
    "largest_vector": (_longest_vector, le),
    "unit_steps": (lambda op: set(op.inputs[3].content.view("<i4")) == {1}, eq),
    "no_ellipsis": (_masks("EllipsisMask"), eq),
    "no_new_axes": (_masks("EllipsisMask", "NewAxisMask"), eq),
    "no_masks": (_masks("EllipsisMask", "NewAxisMask", "ShrinkAxisMask"), eq),
    "constant_parameters": (lambda op: all(t.is_constant for t in op.inputs[1:]), eq),
    "one_scale": (lambda op: op.inputs[0].quantization == op.outputs[0].quantization, eq),
    "symmetric_int8": (_is_symmetric_int8, eq),
    "ranks": (lambda op: len(op.inputs[0].shape), lambda found, allowed: found in allowed),
    "scale_up": (_scale_up, lambda found, allowed: found in allowed),
}
"""Condition to the attribute, and its comparison with the row's value; the table describes each."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ending:
    """Operations that stay on the CPU for the same reason.

    Attributes:
        name: of the operations.
        count: number of operations.
        tensor: name of the first one's output, to locate it.
        reason: why they stay on the CPU.
        remedy: what to change; "" if unknown.
        source: of the reason.
        before_post_processing: whether the post-processing depends on them.
    """

    name: str
    count: int
    tensor: str
    reason: str
    remedy: str
    source: str
    before_post_processing: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lint:
    """The operations of a graph that an accelerator runs.

    Attributes:
        family: key of the table.
        title: its name.
        dead: whether it is no longer developed; the note says by what it was replaced.
        whole: whether a file with another operation is refused; then the post-processing counts, too.
        note: applies to the whole family.
        note_source: of the note.
        parts: number of operations in each delegated part before the post-processing, in order.
            A float part that only converts the scores of an integer network does not count.
        operations: number of operations before the post-processing.
        endings: the operations that stay on the CPU.
    """

    family: str
    title: str
    dead: bool
    whole: bool
    note: str
    note_source: str
    parts: tuple[int, ...]
    operations: int
    endings: tuple[Ending, ...]

    @property
    def one_part(self) -> bool:
        """Whether the delegated operations form one part, and no other operation makes the file refused."""
        return len(self.parts) == 1 and not (self.whole and self.endings)


@functools.cache
def _table() -> dict[str, Any]:
    return dict(read_yaml(TABLE, what="table of accelerators"))


def families() -> dict[str, list[str]]:
    """Return what a user may name: a family, a group, or `all`, with the families that it stands for."""
    found = _table()["families"]
    living = [name for name, rules in found.items() if not rules.get("dead")]
    return {**{name: [name] for name in found}, **_table()["groups"], "all": living}


def lint(content: bytes, family: str, *, where: str = "") -> Lint:
    """Return a file's operations that an accelerator runs, and those that stop it; ModelError if damaged."""
    graph, rules = read_graph(content, where=where), _table()["families"][family]
    try:
        operations = _operations(graph)
        verdicts = [_verdict(operation, rules) for operation in operations]
    except FlatbufferError as error:
        raise damaged(error, where) from error
    every, network = set(range(len(operations))), _before_post_processing(graph)
    before = every if rules.get("whole") else network
    taken = {index for index, (reason, _) in enumerate(verdicts) if not reason}
    if rules.get("cuts_once"):
        taken -= _behind(graph, every - taken)
    scores = _score_conversion(graph, operations, before)
    parts = [part for part in partitions(graph, taken & before) if not scores.issuperset(part)]
    return Lint(
        family=family,
        title=rules["title"],
        dead=rules.get("dead", False),
        whole=rules.get("whole", False),
        note=rules["note"],
        note_source=_table()["sources"][rules["note_source"]],
        parts=tuple(len(part) for part in parts),
        operations=len(before),
        endings=_endings(operations, verdicts, network),
    )


def _verdict(operation: Operation, rules: Mapping[str, Any]) -> tuple[str, str]:
    """Return the reason why an operation is not delegated ("" if it is) and the source."""
    sources = _table()["sources"]
    for row in rules["rows"]:
        if operation.name not in row["operators"]:
            continue
        source = sources[row["source"]]
        if operation.dtype not in row["types"]:
            return f"{' or '.join(row['types'])} wanted, {operation.dtype} found", source
        for name, wanted in row.get("conditions", {}).items():
            look, fits = CONDITIONS[name]
            try:
                found = look(operation)
            except (AttributeError, IndexError, ValueError, ZeroDivisionError) as error:
                raise FlatbufferError(f"{operation.name} without its inputs or options") from error
            if not fits(found, wanted):
                seen = "another" if found is False else found
                return f"{_table()['conditions'][name].format(wanted)} wanted, {seen} found", source
        return "", source
    return "it is not in the list", sources[rules["rows"][0]["source"]]


def _endings(
    operations: Sequence[Operation], verdicts: Sequence[tuple[str, str]], before: Collection[int]
) -> tuple[Ending, ...]:
    """Return the operations that are not delegated, grouped."""
    grouped: dict[tuple[str, str, str, bool], list[int]] = {}
    for index, (reason, source) in enumerate(verdicts):
        if reason:
            grouped.setdefault((operations[index].name, reason, source, index in before), []).append(index)
    return tuple(
        Ending(
            name=name,
            count=len(indices),
            tensor=operations[indices[0]].outputs[0].name,
            reason=reason,
            remedy=_remedy(operations[indices[0]]) if is_before or name in (OPERATION, *_SEARCHES) else "",
            source=source,
            before_post_processing=is_before,
        )
        for (name, reason, source, is_before), indices in grouped.items()
    )


def _remedy(operation: Operation) -> str:
    name, dtype = operation.name, operation.dtype
    fitting = (e for e in _table()["remedies"] if name in e.get("operators", [name]))
    return next((str(e["text"]) for e in fitting if dtype in e.get("types", [dtype])), "")


def _operations(graph: TFLiteGraph) -> list[Operation]:
    return [
        Operation(
            name=info.name,
            version=info.version,
            options=_options(info.table),
            inputs=tuple(graph.tensors[index] for index in info.inputs if index >= 0),
            outputs=tuple(graph.tensors[index] for index in info.outputs),
        )
        for info in graph.operators
    ]


def _options(operator: Any) -> Any:
    found, kind = operator.BuiltinOptions(), _OPTIONS.get(operator.BuiltinOptionsType(), "NONE")
    if found is None or kind == "NONE":
        return None
    options = getattr(schema, kind)()
    options._tab = found
    return checked(options, operator)


def _producers(graph: TFLiteGraph) -> dict[int, int]:
    return {tensor: index for index, op in enumerate(graph.operators) for tensor in op.outputs}


_SEARCHES = {"NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "TOPK_V2"}
"""Built-in operations of a post-processing, which is of many operations then."""


def _before_post_processing(graph: TFLiteGraph) -> set[int]:
    """Return the operations that the post-processing depends on; without post-processing, all operations."""
    ends = [index for index, op in enumerate(graph.operators) if op.name == OPERATION]
    if not ends:
        whole = _SEARCHES.isdisjoint(op.name for op in graph.operators)
        return set(range(len(graph.operators)) if whole else network_operators(graph))
    producers, found, pending = _producers(graph), set[int](), ends
    while pending:
        for tensor in graph.operators[pending.pop()].inputs:
            index = producers.get(tensor, -1)
            if index >= 0 and index not in found:
                found.add(index)
                pending.append(index)
    return found


def _score_conversion(
    graph: TFLiteGraph, operations: Sequence[Operation], before: Collection[int]
) -> set[int]:
    """Return the operations between a network's integers and the post-processing."""
    producers = _producers(graph)
    leaving = {
        index
        for index in before
        if operations[index].name == "DEQUANTIZE" and graph.operators[index].inputs[0] in producers
    }
    behind = _behind(graph, leaving) & set(before)
    return set() if any(operations[index].name == "QUANTIZE" for index in behind) else behind


def _behind(graph: TFLiteGraph, start: Collection[int]) -> set[int]:
    """Return the direct and indirect consumers of operations."""
    producers, behind = _producers(graph), set[int]()
    for index, operator in enumerate(graph.operators):
        before = {producers[tensor] for tensor in operator.inputs if tensor in producers}
        if before & (behind | set(start)):
            behind.add(index)
    return behind


def partitions(graph: TFLiteGraph, taken: Collection[int]) -> list[list[int]]:
    """Divide the operations that a delegate supports into parts that each run in one call.

    This is TensorFlow Lite's algorithm: all ready operations of one side, delegate or CPU, form a part; then
    the sides alternate (https://github.com/tensorflow/tensorflow/blob/master/tensorflow/lite/graph_info.cc).
    The graph's operations are in execution order; `taken` are indices of the supported ones.

    Returns:
        Indices of the operations of each part.
    """
    producers = _producers(graph)
    waiting = list(range(len(graph.operators)))
    done, parts = set[int](), []
    while waiting:
        side: bool | None = None
        part = []
        for index in waiting:
            needed = {producers[t] for t in graph.operators[index].inputs if t in producers}
            if not needed <= done:
                continue
            if side is None:
                side = index in taken
            if (index in taken) is side:
                part.append(index)
                done.add(index)
        waiting = [index for index in waiting if index not in done]
        if side:
            parts.append(part)
    return parts
