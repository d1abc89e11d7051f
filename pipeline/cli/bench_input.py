"""`detflow bench input`: how fast a training is fed, stage by stage, and what bounds it."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from detection_core.errors import ConfigError
from detection_core.report.formats import metric, size
from pipeline.cli.base import Result, config_overrides
from pipeline.console import native_output_to
from pipeline.tables import Page, Table

if TYPE_CHECKING:
    from detection_core.tasks.input_benchmark import InputBenchmark, Throughput

INPUT = "input"
_HEADER = ("stage", "images/s", "CPU ms an image")


def bench_input(arguments: argparse.Namespace) -> Result:
    """Measure the input of a training, and the step that it feeds."""
    from detection_core.config.load import load_checked_config

    if len(arguments.files) != 2:
        raise ConfigError(
            f"expected one pipeline.config after the word {INPUT}, found {len(arguments.files) - 1}",
            where="bench input",
        )
    path = arguments.files[1]
    config = load_checked_config(
        path, config_overrides(arguments.overrides), override_files=arguments.override_files
    )
    with native_output_to(os.devnull):
        from detection_core.config.input_paths import point_at_examples
        from detection_core.tasks.input_benchmark import InputBenchOptions
        from detection_core.tasks.input_benchmark import bench_input as measure

        options = InputBenchOptions(
            images=arguments.images, seconds=arguments.seconds, step=not arguments.no_step
        )
        found = measure(
            point_at_examples(config, arguments.examples) if arguments.examples else config, options
        )
    return Result(text=Page(tuple(_page(found))), data=_data(found))


def _page(found: InputBenchmark) -> Iterator[str | Table]:
    rows = [_row(name, stage) for name, stage in found.stages.items()]
    rows.append(_row("whole input", found.whole))
    rows.append(_row("bare decoding and resizing", found.bare))
    if found.step is not None:
        rows.append(_row(f"training step of {found.batch_size}", found.step))
    yield Table([_HEADER, *rows])
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


def _row(name: str, part: Throughput) -> tuple[str, str, str]:
    return name, metric(part.images_per_second, 1), metric(part.cpu_ms, 2)


def _data(found: InputBenchmark) -> dict[str, Any]:
    return {
        **dataclasses.asdict(found),
        "of_bare": found.of_bare,
        "later_epochs": dataclasses.asdict(found.later_epochs),
        "bound": found.bound or None,
        "expected_images_per_second": found.expected,
    }
