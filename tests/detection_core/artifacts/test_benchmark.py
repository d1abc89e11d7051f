"""benchmark.json."""

from detection_core.artifacts.benchmark import (
    BENCHMARK,
    Benchmark,
    BenchmarkedFile,
    Machine,
    OperatorKind,
    Timing,
)


def benchmark() -> Benchmark:
    """Two files in one setting."""
    timing = Timing(
        threads=1, delegate="xnnpack", runs=3, mean_ms=2.0, min_ms=1.0, p50_ms=2.0, p90_ms=3.0, p99_ms=3.5,
        images_per_second=500.0, load_ms=9.0, first_ms=4.0, peak_memory_bytes=None,
    )  # fmt: skip
    conv = OperatorKind(name="CONV_2D", count=2, delegated=2, milliseconds=1.25)
    loop = OperatorKind(name="WHILE", count=1, delegated=0, milliseconds=None)
    files = [
        BenchmarkedFile(
            path=path, sha256="ab" * 32, size_bytes=1000, integer=False, partitions=[2], timings=[timing],
            operators=[conv, loop],
        )
        for path in ("a/m.tflite", "b/<m>.tflite")
    ]  # fmt: skip
    machine = Machine(processor="P", architecture="x86_64", cores=2, int8_dot_product=None, litert="2.3.0")
    return Benchmark(machine=machine, files=files, notes=["a <note>"])


def test_it_is_read_as_written(tmp_path):
    BENCHMARK.write(str(tmp_path), benchmark())
    assert BENCHMARK.read(str(tmp_path)) == benchmark()


def test_what_cannot_be_timed_on_its_own_has_no_share():
    assert benchmark().files[0].operator_milliseconds() == {"CONV_2D": 1.25}
