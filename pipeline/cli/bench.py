"""The verb `bench`: benchmark TensorFlow Lite files, SavedModels or a training's input on this machine."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from component_specs.annotations import options_of
from detection_core.artifacts.benchmark import BENCHMARK, Benchmark, BenchmarkedFile, Timing
from detection_core.errors import ConfigError
from detection_core.report.page import BENCHMARK_PAGE, DASH, benchmark_page, metric, size
from detection_core.storage import files
from pipeline.cli.base import Result, load_config, output_folder, verb
from pipeline.console import native_output_to
from pipeline.tables import Page, Table

if TYPE_CHECKING:
    from detection_core.tasks.input_benchmark import InputBenchmark
    from detection_core.tasks.serving_benchmark import ServingTiming


_TIMES = ("median ms", "90 %", "99 %", "images/s", "load ms", "first ms")
_HEADER = ("file", "delegate", "threads", *_TIMES, "memory")
_SERVING_HEADER = ("SavedModel", "batch", *_TIMES)
_MOST_KINDS = 12


@verb("detflow bench build/exported/tflite --threads 1,2,4 --output build/bench")
def bench(arguments: argparse.Namespace) -> Result:
    """Measure TensorFlow Lite files, SavedModels by size of the batch, or a training's input."""
    if arguments.files[0] == INPUT:
        return bench_input(arguments)
    from detection_core.artifacts.detector import holds_saved_model

    served = [path for path in arguments.files if holds_saved_model(path)]
    if not served:
        return _bench_files(arguments)
    if len(served) < len(arguments.files):
        other = next(path for path in arguments.files if path not in served)
        raise ConfigError(
            "expected only SavedModels, found something else; measure it separately", where=other
        )
    with native_output_to(os.devnull):
        from detection_core.tasks.serving_benchmark import ServingBenchOptions, bench_saved_models

        options = options_of(
            ServingBenchOptions,
            arguments,
            batch_sizes=_numbers(arguments.batch_sizes, "--batch-sizes"),
            image_size=_image_size(arguments.image_size),
        )
        found = bench_saved_models(served, options)
    rows = [(timing.path, str(timing.batch_size), *_times(timing)) for timing in found]
    return Result(text=Table([_SERVING_HEADER, *rows]), data=[dataclasses.asdict(timing) for timing in found])


def _image_size(text: str) -> tuple[int, int]:
    sides = re.fullmatch("([0-9]{1,9})x([0-9]{1,9})", text.lower())
    if not sides:
        raise ConfigError(f"expected WIDTHxHEIGHT such as 640x480, found {text[:40]!r}", where="--image-size")
    return int(sides[2]), int(sides[1])


def _bench_files(arguments: argparse.Namespace) -> Result:
    with native_output_to(os.devnull):
        from detection_core.tasks.file_benchmark import BenchOptions
        from detection_core.tasks.file_benchmark import bench as measure

        options = BenchOptions(
            threads=_numbers(arguments.threads, "--threads"),
            delegates=tuple(name.strip() for name in arguments.delegates.split(",")),
            runs=arguments.runs,
            operators=not arguments.no_operators,
        )
        found = measure(arguments.files, options)
    if arguments.output:
        with output_folder(arguments.output) as output:
            BENCHMARK.write(output, found)
            files.write_text(files.join(output, BENCHMARK_PAGE), benchmark_page(found))
    return Result(text=Page(tuple(_page(found, arguments.output))), data=BENCHMARK.encode(found))


def _numbers(text: str, where: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError as error:
        raise ConfigError(f"expected numbers such as 1,2,4, found {text!r}", where=where) from error


def _page(found: Benchmark, output: str) -> Iterator[str | Table]:
    machine = found.machine
    dots = {True: "with", False: "without", None: "it is not known whether with"}[machine.int8_dot_product]
    yield f"{machine.processor}, {machine.cores} cores, {dots} int8 dot products; LiteRT {machine.litert}"
    yield ""
    names = _names(found.files)
    rows = [(name, *row) for name, file in zip(names, found.files, strict=True) for row in _timings(file)]
    yield Table([_HEADER, *rows])
    yield ""
    for name, file in zip(names, found.files, strict=True):
        parts = ", ".join(map(str, file.partitions)) or "none"
        yield f"{name}: {size(file.size_bytes)}; XNNPACK runs {len(file.partitions)} part(s): {parts}"
    if any(file.operators for file in found.files):
        yield ""
        yield Table(list(_operators(found)))
    for note in found.notes:
        yield f"\n{note}"
    if output:
        yield f"\npage: {os.path.join(output, 'index.html')}"


def _names(measured: Sequence[BenchmarkedFile]) -> list[str]:
    """Return paths without their common folder."""
    paths = [os.path.abspath(file.path) for file in measured]
    common = os.path.commonpath([os.path.dirname(path) for path in paths])
    return [os.path.relpath(path, common) for path in paths]


def _timings(file: BenchmarkedFile) -> Iterator[tuple[str, ...]]:
    for timing in file.timings:
        memory = timing.peak_memory_bytes
        shown = DASH if memory is None else size(memory)
        yield (timing.delegate, str(timing.threads), *_times(timing), shown)


def _times(timing: Timing | ServingTiming) -> Iterator[str]:
    yield from (metric(value, 2) for value in (timing.p50_ms, timing.p90_ms, timing.p99_ms))
    yield from (metric(timing.images_per_second, 1), metric(timing.load_ms, 1), metric(timing.first_ms, 2))


def _operators(found: Benchmark) -> Iterator[tuple[str, ...]]:
    yield ("ms by operation", *_names(found.files))
    known = [{kind.name: kind for kind in file.operators} for file in found.files]
    kinds = list(dict.fromkeys(name for of_file in known for name in of_file))
    for name in kinds[:_MOST_KINDS]:
        cells = [of_file[name].milliseconds if name in of_file else None for of_file in known]
        yield (name, *(metric(cell, 3) for cell in cells))
    yield ("sum of all", *(metric(sum(f.operator_milliseconds().values()), 3) for f in found.files))


INPUT = "input"
_INPUT_HEADER = ("stage", "images/s", "CPU ms an image")


def bench_input(arguments: argparse.Namespace) -> Result:
    """Benchmark the input of a training, and the training step."""
    if len(arguments.files) != 2:
        raise ConfigError(
            f"expected one pipeline.config after the word {INPUT}, found {len(arguments.files) - 1}",
            where="bench input",
        )
    config = load_config(arguments.files[1], arguments)
    with native_output_to(os.devnull):
        from detection_core.config.input_paths import point_at_examples
        from detection_core.tasks.input_benchmark import InputBenchOptions
        from detection_core.tasks.input_benchmark import bench_input as measure

        options = options_of(InputBenchOptions, arguments, step=not arguments.no_step)
        found = measure(
            point_at_examples(config, arguments.examples) if arguments.examples else config, options
        )
    return Result(text=Page(tuple(_input_page(found))), data=_data(found))


def _input_page(found: InputBenchmark) -> Iterator[str | Table]:
    parts = {**found.stages, "whole input": found.whole, "bare decoding and resizing": found.bare}
    if found.step is not None:
        parts[f"training step of {found.batch_size}"] = found.step
    rates = [(n, metric(p.images_per_second, 1), metric(p.cpu_ms, 2)) for n, p in parts.items()]
    yield Table([_INPUT_HEADER, *rates])
    yield ""
    yield f"{found.cores} cores; the whole input gives {found.of_bare:.2f} of bare decoding's images a second"
    decoded = f"the decoded images take about {size(found.decoded_bytes)}"
    if found.in_memory:
        rate = metric(found.later_epochs.images_per_second, 1)
        yield f"{decoded} and are kept in memory: about {rate} images/s after the first epoch"
    else:
        yield f"{decoded}, too much to keep them in memory: each epoch decodes"
    if found.expected is not None:
        reason = "the two work at the same time" if found.gpus else "the two share the cores"
        rate = metric(found.expected, 1)
        yield f"bound by the {found.bound}: training gets about {rate} images/s, as {reason}"


def _data(found: InputBenchmark) -> dict[str, Any]:
    return {
        **dataclasses.asdict(found),
        "of_bare": found.of_bare,
        "later_epochs": dataclasses.asdict(found.later_epochs),
        "bound": found.bound or None,
        "expected_images_per_second": found.expected,
    }


VERBS = (bench,)
