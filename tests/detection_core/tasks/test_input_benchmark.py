"""What bounds a training."""

import pytest

from detection_core.errors import ConfigError
from detection_core.tasks.input_benchmark import InputBenchmark, InputBenchOptions, Throughput, bench_input
from tests.support.cases import refused
from tests.support.detectors import pointed

STAGES = ("read", "parse", "decode", "resize", "augment", "batch")


def made(whole: float, step: float | None, *, gpus: int = 0, in_memory: bool = False) -> InputBenchmark:
    """On one core: decoding takes half of the input, the other stages a tenth each."""

    def at(rate: float) -> Throughput:
        return Throughput(images_per_second=rate, cpu_ms=1000 / rate)

    stages = {name: at(whole / (0.5 if name == "decode" else 0.1)) for name in STAGES}
    rates = {"whole": at(whole), "bare": at(2 * whole), "step": None if step is None else at(step)}
    said = {"cores": 1, "gpus": gpus, "batch_size": 8, "decoded_bytes": 1, "in_memory": in_memory}
    return InputBenchmark(stages=stages, **rates, **said)


def test_the_slower_one_bounds_and_processors_are_shared():
    for found, bound, expected in (
        (made(100, 25), "step", 20),  # of the cores' time an image, 10 ms go to the input and 40 to the step
        (made(100, 25, gpus=1), "step", 25),
        (made(100, 400, gpus=1), "input", 100),
        # Without reading, parsing and decoding three tenths of the input are left.
        (made(90, 200, gpus=1, in_memory=True), "step", 200),
        (made(90, 400, gpus=1, in_memory=True), "input", 300),
    ):
        assert (found.bound, found.expected) == (bound, pytest.approx(expected))
    # Without a step nothing is said of what bounds.
    assert (made(100, None).bound, made(100, None).expected) == ("", None) and made(100, None).of_bare == 0.5


def test_a_training_is_measured_and_nothing_cannot_be():
    found = bench_input(pointed("plain"), InputBenchOptions(images=4, seconds=0.05, step=True))
    assert tuple(found.stages) == STAGES
    assert min(part.images_per_second for part in (*found.stages.values(), found.whole, found.bare)) > 0
    assert found.decoded_bytes == 6 * 64 * 64 * 3 and found.in_memory and found.batch_size == 2
    assert found.step is not None and found.step.cpu_ms > found.stages["read"].cpu_ms
    assert found.bound == "step"
    for wrong in ({"images": 0}, {"seconds": 0.0}):
        refused(ConfigError, "expected at least one image", InputBenchOptions, **wrong)
