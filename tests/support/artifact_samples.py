"""Content of artifacts that several pages show."""

import dataclasses

from detection_core.artifacts.benchmark import Benchmark, BenchmarkedFile, Machine, OperatorKind, Timing
from detection_core.artifacts.quantization import (
    Accuracy,
    FloatGroup,
    LayerError,
    QuantizationOptions,
    Sensitivity,
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


def sensitivity() -> Sensitivity:
    """A layer with errors, one that is 0 throughout, and a part left in float."""
    layer = LayerError(
        layer="stem", kind="Conv2D", group="backbone, stride 2", own_db=31.5, total_db=30.25,
        mean_error=0.01, largest_error=0.5, range=(-1.0, 6.0),
    )  # fmt: skip
    dead = dataclasses.replace(layer, layer="dead", own_db=None, total_db=None)
    accuracy = Accuracy(
        split="eval", images=3, float_metrics={"mAP": 0.5}, quantized_metrics={"mAP": 0.25},
        groups=[FloatGroup(group="box head", layers=4, metrics={"mAP": 0.375, "small": None}, gained=0.125)],
    )  # fmt: skip
    settings = QuantizationOptions(delay=0)
    return Sensitivity(settings=settings, examples=8, layers=[layer, dead], accuracy=accuracy)
