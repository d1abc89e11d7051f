"""The benchmark of TensorFlow Lite files: benchmark.json."""

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine that ran the benchmark.

    Attributes:
        processor: name that the system reports.
        architecture: such as `x86_64`.
        cores: number that the process may use.
        int8_dot_product: whether the processor has int8 dot products (VNNI, Arm dotprod); None if unknown.
        litert: version.
    """

    processor: str
    architecture: str
    cores: int
    int8_dot_product: bool | None
    litert: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
    """Timing of one file in one setting.

    Attributes:
        threads: that LiteRT may use.
        delegate: `xnnpack`, or `none` for LiteRT's own kernels.
        runs: timed inferences.
        mean_ms: mean time of a run, milliseconds.
        min_ms: shortest run.
        p50_ms: median.
        p90_ms: 90th percentile.
        p99_ms: 99th percentile.
        images_per_second: throughput at batch size 1.
        load_ms: time to create a ready interpreter, in a separate process.
        first_ms: time of the first inference there.
        peak_memory_bytes: increase of the process's peak memory by both; None if unknown.
    """

    threads: int
    delegate: str
    runs: int
    mean_ms: float
    min_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    images_per_second: float
    load_ms: float
    first_ms: float
    peak_memory_bytes: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperatorKind:
    """Total of all operations of one type.

    Attributes:
        name: such as `CONV_2D`.
        count: operations of this type in the file.
        delegated: how many of them XNNPACK runs.
        milliseconds: their total time, each timed alone with one thread and XNNPACK; None if none can run
            alone.
    """

    name: str
    count: int
    delegated: int
    milliseconds: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkedFile:
    """All measurements of one file.

    Attributes:
        path: as given.
        sha256: of the file.
        size_bytes: of the file.
        integer: whether most of its convolutions run on integers.
        partitions: number of operations in each partition that XNNPACK runs.
        timings: one entry per setting.
        operators: slowest first; empty if not requested.
    """

    path: str
    sha256: str
    size_bytes: int
    integer: bool
    partitions: list[int]
    timings: list[Timing]
    operators: list[OperatorKind] = dataclasses.field(default_factory=list)

    def operator_milliseconds(self) -> Mapping[str, float]:
        """Return the total time of each type of operation, milliseconds."""
        return {kind.name: kind.milliseconds for kind in self.operators if kind.milliseconds is not None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Benchmark:
    """The content of benchmark.json.

    Attributes:
        machine: the machine that ran the benchmark.
        files: in the order given.
        notes: conclusions, as sentences.
    """

    machine: Machine
    files: list[BenchmarkedFile]
    notes: list[str] = dataclasses.field(default_factory=list)


BENCHMARK = JsonFile(
    name="benchmark.json", content=Benchmark, writer="`detflow bench`", remedy="measure the files again"
)
