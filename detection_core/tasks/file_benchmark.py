"""Measure TensorFlow Lite files on this machine: latency, cold start, memory, and the time of operations."""

import collections
import contextlib
import dataclasses
import hashlib
import math
import os
import platform
from collections.abc import Sequence
from importlib import metadata

import numpy as np

from detection_core.artifacts.benchmark import Benchmark, BenchmarkedFile, Machine, OperatorKind, Timing
from detection_core.artifacts.tflite_file import TFLiteGraph, read_graph, read_tflite
from detection_core.errors import ConfigError
from detection_core.evaluation.tflite_trial import try_tflite
from detection_core.exporters.cold_start import ColdStart, measure_cold_start
from detection_core.exporters.operator_times import (
    DELEGATES,
    Delegation,
    operator_times,
    time_inferences,
    xnnpack_delegation,
)
from detection_core.storage import files

_ROUNDS = 5
_OPERATOR_RUNS = 20
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
_DOT_PRODUCT_FLAGS = {"avx_vnni", "avx512_vnni", "avx_vnni_int8", "asimddp", "i8mm"}
_CPU_INFO = "/proc/cpuinfo"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """Options of the benchmark.

    Attributes:
        threads: numbers of threads to measure with.
        delegates: of `operator_times.DELEGATES`.
        runs: timed inferences of each file in each setting.
        operators: also time each operation separately.
    """

    threads: tuple[int, ...] = (1, 2)
    delegates: tuple[str, ...] = DELEGATES
    runs: int = 50
    operators: bool = True

    def __post_init__(self) -> None:
        if not self.threads or min(self.threads) < 1:
            raise ConfigError(f"expected numbers from 1, found {list(self.threads)}", where="threads")
        unknown = [name for name in self.delegates if name not in DELEGATES]
        if unknown or not self.delegates:
            found = ", ".join(unknown) or "none"
            raise ConfigError(f"expected some of {', '.join(DELEGATES)}, found {found}", where="delegates")
        if self.runs < 1:
            raise ConfigError(f"expected at least 1, found {self.runs}", where="runs")


def bench(paths: Sequence[str], options: BenchOptions) -> Benchmark:
    """Measure files side by side.

    The files take turns, so that other load on the machine affects all of them.

    Args:
        paths: .tflite files, or folders of them, such as a version in a push destination.
        options: what to measure.

    Raises:
        ConfigError: if a folder has no .tflite file, or a path does not exist.
        ModelError: if a file is not a TensorFlow Lite file, is damaged, or LiteRT cannot run it.
    """
    found = tflite_files(paths)
    contents = {path: read_tflite(path) for path in found}
    graphs = {path: read_graph(content, where=path) for path, content in contents.items()}
    for path, content in contents.items():
        try_tflite(content, where=path, threads=max(options.threads))
    settings = [(threads, delegate) for delegate in options.delegates for threads in options.threads]
    timings: dict[str, list[Timing]] = {path: [] for path in found}
    with contextlib.ExitStack() as stack:
        local = {path: stack.enter_context(files.local_copy(path)) for path in contents}
        for threads, delegate in settings:
            times: dict[str, list[float]] = {path: [] for path in found}
            a_round = math.ceil(options.runs / _ROUNDS)
            for path in found * _ROUNDS:
                times[path] += time_inferences(
                    contents[path], threads=threads, delegate=delegate, runs=a_round
                )
            for path in found:
                cold = measure_cold_start(local[path], threads=threads, delegate=delegate)
                timings[path].append(_timing(times[path][: options.runs], threads, delegate, cold))
    measured = [_measured(path, contents[path], graphs[path], timings[path], options) for path in found]
    machine = _machine()
    return Benchmark(machine=machine, files=measured, notes=_notes(machine, measured))


def tflite_files(paths: Sequence[str]) -> list[str]:
    """Return the files that paths name, each once; ConfigError for a missing path or .tflite file."""
    found: list[str] = []
    for path in paths:
        if not files.exists(path):
            raise ConfigError("expected a .tflite file or a folder of them, found nothing", where=path)
        inside = files.list_matching(path, "*.tflite") if files.is_dir(path) else [path]
        if not inside:
            raise ConfigError("expected a folder with .tflite files, found none in it", where=path)
        found += inside
    return list(dict.fromkeys(found))


def _timing(times: list[float], threads: int, delegate: str, cold: ColdStart) -> Timing:
    p50, p90, p99 = (float(np.percentile(times, share)) for share in (50, 90, 99))
    mean = float(np.mean(times))
    return Timing(
        threads=threads,
        delegate=delegate,
        runs=len(times),
        mean_ms=mean,
        min_ms=min(times),
        p50_ms=p50,
        p90_ms=p90,
        p99_ms=p99,
        images_per_second=1000 / mean,
        **dataclasses.asdict(cold),
    )


def _measured(
    path: str, content: bytes, graph: TFLiteGraph, timings: list[Timing], options: BenchOptions
) -> BenchmarkedFile:
    delegation = xnnpack_delegation(content)
    kinds = _operator_kinds(content, graph, delegation, path) if options.operators else []
    convolutions = [op for op in graph.operators if op.name in _CONVOLUTIONS]
    integer = [op for op in convolutions if "int" in graph.tensors[op.inputs[0]].dtype]
    return BenchmarkedFile(
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        integer=len(integer) * 2 > len(convolutions),
        partitions=[len(partition) for partition in delegation.partitions],
        timings=timings,
        operators=kinds,
    )


def _operator_kinds(
    content: bytes, graph: TFLiteGraph, delegation: Delegation, path: str
) -> list[OperatorKind]:
    known: dict[str, list[float]] = collections.defaultdict(list)
    left = collections.Counter(graph.operators[index].name for index in delegation.left)
    for one in operator_times(content, threads=1, delegate="xnnpack", runs=_OPERATOR_RUNS, where=path):
        if one.milliseconds is not None:
            known[graph.operators[one.index].name].append(one.milliseconds)
    kinds = [
        OperatorKind(
            name=name,
            count=count,
            delegated=count - left[name],
            milliseconds=sum(known[name]) if name in known else None,
        )
        for name, count in graph.operator_counts().items()
    ]
    return sorted(kinds, key=lambda kind: -(kind.milliseconds or 0.0))


def _machine() -> Machine:
    lines = []
    if os.path.exists(_CPU_INFO):
        with open(_CPU_INFO, encoding="utf-8", errors="replace") as file:
            lines = [line.partition(":") for line in file]
    known = {name.strip().lower(): value.strip() for name, _, value in reversed(lines)}
    flags = set((known.get("flags") or known.get("features") or "").split())
    return Machine(
        processor=known.get("model name") or platform.processor() or "unknown",
        architecture=platform.machine(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        int8_dot_product=bool(flags & _DOT_PRODUCT_FLAGS) if flags else None,
        litert=metadata.version("ai-edge-litert"),
    )


def _notes(machine: Machine, measured: Sequence[BenchmarkedFile]) -> list[str]:
    """Explain each integer file that is slower than its float counterpart."""
    notes = []
    for integer in measured:
        for floating in measured:
            beside = os.path.dirname(floating.path) == os.path.dirname(integer.path)
            if beside and integer.integer and not floating.integer:
                notes += _slower(machine, integer, floating)
    return notes


def _slower(machine: Machine, integer: BenchmarkedFile, floating: BenchmarkedFile) -> list[str]:
    own, other = (
        next((t for t in file.timings if t.delegate == "xnnpack"), None) for file in (integer, floating)
    )
    if own is None or other is None or own.p50_ms <= other.p50_ms:
        return []
    names = [file.path.rpartition("/")[2] for file in (integer, floating)]
    text = (
        f"{names[0]} takes {own.p50_ms:.2f} ms and {names[1]} {other.p50_ms:.2f} ms (median, {own.threads}"
        " thread(s), XNNPACK)"
    )
    times, others = integer.operator_milliseconds(), floating.operator_milliseconds()
    lost = {name: times[name] - others.get(name, 0.0) for name in times}
    worst = max(lost, key=lost.__getitem__, default="")
    if worst and lost[worst] > 0:
        text += f"; most of it is {worst}, {times[worst]:.2f} against {others.get(worst, 0.0):.2f} ms"
    if machine.int8_dot_product is False:
        text += (
            "; this processor has no products of int8 (VNNI, Arm dotprod), so int8 is not faster: measure on"
            " the target device"
        )
    return [text]
