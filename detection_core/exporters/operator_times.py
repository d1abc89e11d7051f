"""Time a TensorFlow Lite file in LiteRT on this machine's CPU, and each of its operations.

LiteRT's Python interface has no profiler. So each operation is copied to a separate file with its constants.
It is timed on the inputs that the whole file computes for one image. Operations share no caches, and each
call costs some microseconds. The sum may therefore differ from the time of the whole file, which is also
reported.
"""

import dataclasses
import statistics
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.tools.flatbuffer_utils import convert_object_to_bytearray

from detection_core.artifacts.tflite_file import damaged, verify_tflite
from detection_core.storage import files

DELEGATES = ("xnnpack", "none")
"""`xnnpack` is LiteRT's default on CPUs; the other uses only LiteRT's own kernels."""
_DELEGATE_NODE = "DELEGATE"


def make_interpreter(model: bytes | str, *, threads: int, delegate: str, keep_tensors: bool = False) -> Any:
    """Return a LiteRT interpreter of a file's content or local path, memory-mapped, with allocated tensors.

    The delegate is one of `DELEGATES`. With `keep_tensors` each tensor can be read after a run.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolvers = {"xnnpack": OpResolverType.AUTO, "none": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
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


WARM_UP_RUNS = 3


def measure_latency(path: str, *, threads: int, runs: int = 20) -> float:
    """Return a file's median milliseconds with XNNPACK, post-processing included, after warm-up runs."""
    content = files.read_bytes(path)
    return statistics.median(time_inferences(content, threads=threads, delegate="xnnpack", runs=runs))


def time_inferences(content: bytes, *, threads: int, delegate: str, runs: int) -> list[float]:
    """Return the milliseconds of inferences on noise, in order, after a few warm-up runs."""
    interpreter = make_interpreter(content, threads=threads, delegate=delegate)
    fill_inputs(interpreter)
    return _run_times(interpreter, WARM_UP_RUNS, runs)


def _run_times(interpreter: Any, warm_up: int, runs: int) -> list[float]:
    times = []
    for run in range(warm_up + runs):
        began = time.perf_counter()
        interpreter.invoke()
        if run >= warm_up:
            times.append((time.perf_counter() - began) * 1000)
    return times


def fill_inputs(interpreter: Any) -> None:
    """Fill an interpreter's inputs with noise: all codes of an integer input, -1..1 of a float one."""
    for details in interpreter.get_input_details():
        noise = np.random.default_rng(0).uniform(0, 1, details["shape"])
        dtype = np.dtype(details["dtype"])
        if np.issubdtype(dtype, np.integer):
            codes = np.iinfo(dtype)
            noise = np.floor(codes.min + noise * (float(codes.max) - codes.min))
        else:
            noise = noise * 2 - 1
        interpreter.set_tensor(details["index"], noise.astype(dtype))


_WARM_UP_RUNS = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperatorTime:
    """The time of one operation.

    Attributes:
        index: in the graph's operators.
        milliseconds: median; None for an operation that cannot run alone, or that has constant inputs only:
            delegates compute it once, when they load the file.
    """

    index: int
    milliseconds: float | None


def operator_times(
    content: bytes, *, threads: int, delegate: str, runs: int, where: str = ""
) -> list[OperatorTime]:
    """Time every operation of the first graph separately.

    Args:
        content: a TensorFlow Lite file.
        threads: threads that LiteRT may use.
        delegate: of `operator_times.DELEGATES`.
        runs: timed inferences of each operation.
        where: path of the file, for errors.

    Raises:
        ModelError: if it is not a TensorFlow Lite file, or damaged.
    """
    model = _unpacked(content, where)
    # LiteRT's own kernels keep every tensor; a delegate keeps no inner ones.
    whole = make_interpreter(content, threads=1, delegate="none", keep_tensors=True)
    fill_inputs(whole)
    whole.invoke()
    values = {}
    for operator in model.subgraphs[0].operators:
        for index in _present(operator.inputs):
            if model.buffers[model.subgraphs[0].tensors[index].buffer].data is None:
                values[index] = whole.get_tensor(index)
    del whole
    found = []
    for place, operator in enumerate(model.subgraphs[0].operators):
        single, inputs = _single(model, operator)
        arrays = [values[index] for index in inputs]
        taken = _time(single, arrays, threads, delegate, runs) if arrays else None
        found.append(OperatorTime(index=place, milliseconds=taken))
    return found


def _unpacked(content: bytes, where: str) -> Any:
    verify_tflite(content, where=where)
    try:
        return schema.ModelT.InitFromPackedBuf(content, 0)
    except (struct.error, TypeError, IndexError, ValueError) as error:
        raise damaged(error, where) from error


def _present(indices: Any) -> list[int]:
    return [int(index) for index in indices if index >= 0]


def _single(model: Any, operator: Any) -> tuple[bytes, list[int]]:
    """Return a file of one operation, and the original indices of its input tensors."""
    graph = model.subgraphs[0]
    used = sorted({*_present(operator.inputs), *_present(operator.outputs)})
    places = {index: place for place, index in enumerate(used)}
    result, part, copy = schema.ModelT(), schema.SubGraphT(), schema.OperatorT()
    result.version, result.operatorCodes = model.version, [model.operatorCodes[operator.opcodeIndex]]
    result.buffers = [schema.BufferT()]
    part.tensors = []
    for index in used:
        tensor = schema.TensorT()
        vars(tensor).update(vars(graph.tensors[index]))
        data = model.buffers[tensor.buffer].data
        tensor.buffer = 0
        if data is not None:
            tensor.buffer = len(result.buffers)
            result.buffers.append(model.buffers[graph.tensors[index].buffer])
        part.tensors.append(tensor)
    vars(copy).update(vars(operator))
    copy.opcodeIndex = 0
    copy.inputs = [places.get(int(index), -1) for index in operator.inputs]
    copy.outputs = [places[index] for index in _present(operator.outputs)]
    computed = [i for i in dict.fromkeys(_present(operator.inputs)) if part.tensors[places[i]].buffer == 0]
    part.inputs, part.outputs, part.operators = [places[i] for i in computed], copy.outputs, [copy]
    result.subgraphs = [part]
    return bytes(convert_object_to_bytearray(result)), computed


def _time(content: bytes, inputs: list[np.ndarray], threads: int, delegate: str, runs: int) -> float | None:
    try:
        interpreter = make_interpreter(content, threads=threads, delegate=delegate)
    except (RuntimeError, ValueError):
        return None  # a branch or a loop, whose graphs are elsewhere in the file
    for details, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(details["index"], value)
    return statistics.median(_run_times(interpreter, _WARM_UP_RUNS, runs))
