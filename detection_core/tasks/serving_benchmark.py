"""Measure SavedModels on this machine: latency and images a second, by batch size."""

import dataclasses
import time
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from detection_core.errors import ConfigError
from detection_core.evaluation.served_file import ServedFile, ServedModel

_WARM_UP_RUNS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServingBenchOptions:
    """Options of the benchmark.

    Attributes:
        batch_sizes: images in a request.
        runs: timed requests of each size.
        image_size: rows and columns of the images.
        trust: run a SavedModel even if its graph does more than compute.
    """

    batch_sizes: tuple[int, ...] = (1, 8)
    runs: int = 20
    image_size: tuple[int, int] = (480, 640)
    trust: bool = False

    def __post_init__(self) -> None:
        """Refuse options that cannot be measured. Raises ConfigError for an option out of range."""
        if not self.batch_sizes or min(*self.batch_sizes, self.runs, *self.image_size) < 1:
            raise ConfigError(
                f"expected batches, runs and image sides from 1, found {list(self.batch_sizes)},"
                f" {self.runs} and {list(self.image_size)}",
                where="batch_sizes, runs, image_size",
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServingTiming:
    """Latency of a SavedModel, resizing and suppression included.

    Attributes:
        path: of the model.
        batch_size: images in a request.
        runs: timed requests.
        load_ms: milliseconds to load the model.
        first_ms: milliseconds of the first request of this size.
        p50_ms: median milliseconds of a request.
        p90_ms: 90th percentile, milliseconds.
        p99_ms: 99th percentile, milliseconds.
        images_per_second: over all timed requests.
    """

    path: str
    batch_size: int
    runs: int
    load_ms: float
    first_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    images_per_second: float


def bench_saved_models(paths: Sequence[str], options: ServingBenchOptions) -> list[ServingTiming]:
    """Measure SavedModels one after another.

    Args:
        paths: detector folders, or SavedModels of other programs.
        options: what to measure; a model with a fixed batch skips other sizes.

    Returns:
        A timing for each model and size.

    Raises:
        ModelError: if a model cannot be run.
        ConfigError: if a model accepts none of the sizes.
    """
    return [timing for path in paths for timing in _bench(path, options)]


def _bench(path: str, options: ServingBenchOptions) -> Iterator[ServingTiming]:
    began = time.perf_counter()
    model = ServedModel(path, trust=options.trust)
    load_ms = (time.perf_counter() - began) * 1000
    sizes = [size for size in options.batch_sizes if model.batch_size in (None, size)]
    if not sizes:
        raise ConfigError(
            f"expected the batch size {model.batch_size}, which the model takes, found"
            f" {list(options.batch_sizes)}; add it to --batch-sizes",
            where=path,
        )
    noise = np.random.default_rng(0).integers(0, 256, (max(sizes), *options.image_size, 3)).astype(np.uint8)
    for size in sizes:
        times = time_requests(model, tf.constant(noise[:size]), options.runs + _WARM_UP_RUNS)
        first, timed = times[0], times[_WARM_UP_RUNS:]
        p50, p90, p99 = (float(np.percentile(timed, share)) for share in (50, 90, 99))
        yield ServingTiming(
            path=path,
            batch_size=size,
            runs=options.runs,
            load_ms=load_ms,
            first_ms=first,
            p50_ms=p50,
            p90_ms=p90,
            p99_ms=p99,
            images_per_second=1000 * size / float(np.mean(timed)),
        )


def time_requests(model: ServedModel | ServedFile, images: tf.Tensor, runs: int) -> list[float]:
    """Return the milliseconds of repeated requests with the same images, including the first."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        next(iter(model.run(images).values())).numpy()  # wait for the result
        times.append((time.perf_counter() - began) * 1000)
    return times
