"""The benchmark of TensorFlow Lite files: benchmark.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """What was measured on.

    Attributes:
        processor: as the system names it.
        architecture: such as `x86_64`.
        cores: that the process may use.
        int8_dot_product: whether the processor multiplies and adds four int8 at once (VNNI, Arm dotprod);
            None where the system does not tell.
        litert: version.
    """

    processor: str
    architecture: str
    cores: int
    int8_dot_product: bool | None
    litert: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
    """A file in one setting.

    Attributes:
        threads: that LiteRT may use.
        delegate: `xnnpack`, or `none` for LiteRT's own kernels.
        runs: timed inferences.
        mean_ms: of them, milliseconds.
        min_ms: of them.
        p50_ms: median.
        p90_ms: of ten inferences one takes longer.
        p99_ms: of a hundred inferences one takes longer.
        images_per_second: one image after the other.
        load_ms: from the file to an interpreter that can run, in a separate process.
        first_ms: its first inference.
        peak_memory_bytes: by which loading and that inference raised the process's peak; None where the
            system does not tell.
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
    """All operations of one name.

    Attributes:
        name: such as `CONV_2D`.
        count: of them in the file.
        delegated: of them that XNNPACK runs.
        milliseconds: of all, each timed alone with one thread and XNNPACK; None where none of them can
            run alone.
    """

    name: str
    count: int
    delegated: int
    milliseconds: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkedFile:
    """A file and all that was measured of it.

    Attributes:
        path: as given.
        sha256: of the file.
        size_bytes: of the file.
        integer: whether most of its convolutions run on integers.
        partitions: operations of each part that XNNPACK runs in one go.
        timings: one a setting.
        operators: by their time, longest first; empty where it was not asked for.
    """

    path: str
    sha256: str
    size_bytes: int
    integer: bool
    partitions: list[int]
    timings: list[Timing]
    operators: list[OperatorKind] = dataclasses.field(default_factory=list)

    def operator_milliseconds(self) -> Mapping[str, float]:
        """Return name of an operation to the time of all of its kind."""
        return {kind.name: kind.milliseconds for kind in self.operators if kind.milliseconds is not None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What benchmark.json holds.

    Attributes:
        machine: what was measured on.
        files: in the order in which they were given.
        notes: what the figures say, in sentences.
    """

    machine: Machine
    files: list[BenchmarkedFile]
    notes: list[str] = dataclasses.field(default_factory=list)


BENCHMARK = JsonFile(
    name="benchmark.json", content=Benchmark, writer="`detflow bench`", remedy="measure the files again"
)
