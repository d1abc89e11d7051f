"""Find the operations of a TensorFlow Lite file that XNNPACK runs, as LiteRT reports them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

DELEGATES = ("xnnpack", "none")
"""`xnnpack` is LiteRT's default on CPUs; the other uses only LiteRT's own kernels."""
_DELEGATE_NODE = "DELEGATE"


def make_interpreter(model: bytes | str, *, threads: int, delegate: str, keep_tensors: bool = False) -> Any:
    """Return a LiteRT interpreter with allocated tensors.

    Args:
        model: a TensorFlow Lite file, or its local path, which is memory-mapped.
        threads: threads that it may use.
        delegate: of `DELEGATES`.
        keep_tensors: whether each tensor can be read after a run.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolvers = {
        "xnnpack": OpResolverType.AUTO,
        "none": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    }
    interpreter = Interpreter(
        model_path=model if isinstance(model, str) else None,
        model_content=None if isinstance(model, str) else model,
        num_threads=threads,
        experimental_op_resolver_type=resolvers[delegate],
        experimental_preserve_all_tensors=keep_tensors,
    )
    interpreter.allocate_tensors()
    return interpreter


@dataclasses.dataclass(frozen=True, kw_only=True)
class Delegation:
    """Operations that a delegate runs.

    Attributes:
        partitions: operations of each delegated partition, as indices into the graph's operators, in
            partition order.
        left: indices of the operations that run in LiteRT's own kernels.
    """

    partitions: tuple[tuple[int, ...], ...]
    left: tuple[int, ...]


def xnnpack_delegation(content: bytes) -> Delegation:
    """Ask LiteRT which operations XNNPACK runs, in this build and on this machine."""
    interpreter = make_interpreter(content, threads=1, delegate="xnnpack")
    nodes: Sequence[Mapping[str, Any]] = interpreter._get_ops_details()
    operators = [node for node in nodes if node["op_name"] != _DELEGATE_NODE]
    partitions = [_behind(node, operators) for node in nodes if node["op_name"] == _DELEGATE_NODE]
    taken = {index for partition in partitions for index in partition}
    return Delegation(
        partitions=tuple(partitions),
        left=tuple(index for index in range(len(operators)) if index not in taken),
    )


def _behind(delegate: Mapping[str, Any], operators: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    """Return the operations between a delegate's inputs and its outputs."""
    producers = {int(t): index for index, op in enumerate(operators) for t in op["outputs"]}
    inputs = {int(t) for t in delegate["inputs"]}
    pending, found = [int(t) for t in delegate["outputs"]], set()
    while pending:
        index = producers.get(pending.pop(), -1)
        if index < 0 or index in found:
            continue
        found.add(index)
        pending += [int(t) for t in operators[index]["inputs"] if t >= 0 and int(t) not in inputs]
    return tuple(sorted(found))
