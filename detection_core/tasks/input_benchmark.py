"""Measure the input pipeline of a training stage by stage, and the training step."""

import dataclasses
import os
import time
from collections.abc import Mapping

import tensorflow as tf

from detection_core.builders.datasets import (
    AUGMENT,
    BARE,
    BATCH,
    DECODE,
    DEFAULT_CACHE_BYTES,
    PARSE,
    READ,
    RESIZE,
    WHOLE,
    build_input_stages,
    build_train_dataset,
    train_reader,
    with_steps,
)
from detection_core.builders.detector import configured_model
from detection_core.builders.train_plan import TrainPlan, build_optimization, build_train_plan
from detection_core.config.check import check_classes_filled_in, check_training
from detection_core.config.label_map_file import load_label_map
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.label_map import LabelMap
from detection_core.data.records import naming_bad_records
from detection_core.detectors.base import TOTAL_LOSS
from detection_core.errors import ConfigError
from detection_core.training.memory import keep_host_memory
from detection_core.training.precision import choose_precision, computing_in
from detection_core.training.step import TrainState, compile_steps

_STEPS = 3
# The output of these stages includes the stage before.
_INCLUDES = {DECODE: PARSE, AUGMENT: RESIZE}
_PARALLEL = (READ, PARSE, DECODE, RESIZE, AUGMENT, BATCH, WHOLE, BARE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputBenchOptions:
    """Options of the benchmark.

    Attributes:
        images: number of images, repeated from memory.
        seconds: run time of each stage.
        step: also measure the training step.
    """

    images: int = 64
    seconds: float = 3.0
    step: bool = True

    def __post_init__(self) -> None:
        """Refuse options that cannot be measured. Raises ConfigError for an option out of range."""
        if self.images < 1 or self.seconds <= 0:
            raise ConfigError(
                f"expected at least one image and a time above 0, found {self.images} and {self.seconds:g}",
                where="images, seconds",
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Throughput:
    """Throughput of one stage that has the machine to itself.

    Attributes:
        images_per_second: on all cores.
        cpu_ms: processor time of an image, milliseconds; without the stage before, where both run together.
    """

    images_per_second: float
    cpu_ms: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputBenchmark:
    """Results of the benchmark.

    Attributes:
        stages: name to throughput, in the order of the input.
        whole: the complete input pipeline, in an epoch that decodes.
        bare: decoding and resizing alone, of the same images.
        step: the training step on one batch in memory; None if not measured.
        cores: number of processor cores.
        gpus: number of GPUs.
        batch_size: images an update.
        decoded_bytes: estimated size of all decoded images.
        in_memory: whether training caches decoded images, so that only the first epoch decodes.
    """

    stages: Mapping[str, Throughput]
    whole: Throughput
    bare: Throughput
    step: Throughput | None
    cores: int
    gpus: int
    batch_size: int
    decoded_bytes: int
    in_memory: bool

    @property
    def of_bare(self) -> float:
        """Throughput of the input, as a fraction of bare decoding's."""
        return self.whole.images_per_second / self.bare.images_per_second

    @property
    def later_epochs(self) -> Throughput:
        """Input throughput after the first epoch: if images are cached, without reading and decoding."""
        if not self.in_memory:
            return self.whole
        saved = sum(self.stages[name].cpu_ms for name in (READ, PARSE, DECODE))
        left = max(self.whole.cpu_ms - saved, self.stages[AUGMENT].cpu_ms + self.stages[BATCH].cpu_ms, 1e-6)
        rate = self.whole.images_per_second * self.whole.cpu_ms / left
        return Throughput(images_per_second=rate, cpu_ms=left)

    @property
    def bound(self) -> str:
        """The slower of `input` and `step`; empty if the step was not measured."""
        if self.step is None:
            return ""
        return "input" if self.later_epochs.images_per_second < self.step.images_per_second else "step"

    @property
    def expected(self) -> float | None:
        """Expected images a second in training; on CPUs, input and step share the cores."""
        if self.step is None:
            return None
        rates = (self.later_epochs.images_per_second, self.step.images_per_second)
        return min(rates) if self.gpus else 1.0 / sum(1.0 / rate for rate in rates)


def bench_input(config: CheckedConfig, options: InputBenchOptions) -> InputBenchmark:
    """Measure the input pipeline of a training with a filled train_input_reader.

    Raises:
        ConfigError: if the config cannot be used.
        DataError: if the examples cannot be read.
    """
    keep_host_memory()
    check_training(config)
    config = with_steps(config)
    plan = build_train_plan(config, log_every=1)
    label_map = load_label_map(plan.label_map_path)
    config = check_classes_filled_in(config, label_map.num_classes)
    reader = train_reader(config, label_map)
    decoded = reader.decoded_bytes(limit=DEFAULT_CACHE_BYTES)
    stages = build_input_stages(
        config, label_map=label_map, batch_size=plan.batch_size, images=options.images
    )
    with naming_bad_records(reader.paths, reader.decode):
        found = {
            name: _throughput(stages[name], plan.batch_size if name in (BATCH, WHOLE) else 1, options)
            for name in _PARALLEL
        }
        step = _step(config, label_map, plan) if options.step else None
    alone = {
        name: dataclasses.replace(found[name], cpu_ms=max(0.0, found[name].cpu_ms - found[part].cpu_ms))
        for name, part in _INCLUDES.items()
    }
    order = (READ, PARSE, DECODE, RESIZE, AUGMENT, BATCH)
    return InputBenchmark(
        stages={name: alone.get(name, found[name]) for name in order},
        whole=found[WHOLE],
        bare=found[BARE],
        step=step,
        cores=os.cpu_count() or 1,
        gpus=len(tf.config.list_physical_devices("GPU")),
        batch_size=plan.batch_size,
        decoded_bytes=decoded,
        in_memory=decoded <= DEFAULT_CACHE_BYTES,
    )


def _throughput(dataset: tf.data.Dataset, images: int, options: InputBenchOptions) -> Throughput:
    """Measure a dataset with `images` images per element, after one pass that fills the caches."""
    iterator = iter(dataset.prefetch(tf.data.AUTOTUNE))
    for _ in range(-(-options.images // images)):
        next(iterator)
    count, began, worked = 0, time.perf_counter(), time.process_time()
    while count == 0 or time.perf_counter() - began < options.seconds:
        next(iterator)
        count += images
    return Throughput(
        images_per_second=count / (time.perf_counter() - began),
        cpu_ms=1000.0 * (time.process_time() - worked) / count,
    )


def _step(config: CheckedConfig, label_map: LabelMap, plan: TrainPlan) -> Throughput:
    """Measure the configured training step on one batch and one device."""
    precision = choose_precision(plan.precision)
    options = dataclasses.replace(plan.computing_in(precision).options, steps_per_call=1)
    with computing_in(precision):
        model = configured_model(config).build()
    batch = next(iter(build_train_dataset(config, label_map=label_map, batch_size=plan.batch_size, seed=0)))
    state = TrainState(model, build_optimization(config), options, None)
    update = compile_steps(state, options, lambda outputs: None)
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat().prefetch(2))
    times = []
    for _ in range(_STEPS + 2):  # the first one traces and compiles
        began, worked = time.perf_counter(), time.process_time()
        float(update(batches, tf.constant(1)).losses[TOTAL_LOSS])
        times.append((time.perf_counter() - began, time.process_time() - worked))
    wall, cpu = (sum(column) / _STEPS for column in zip(*times[2:], strict=True))
    return Throughput(images_per_second=plan.batch_size / wall, cpu_ms=1000.0 * cpu / plan.batch_size)
