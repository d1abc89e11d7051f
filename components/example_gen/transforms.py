"""The Beam pipeline that writes the shards, and how it is run."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence

from components.example_gen.local_workers import run_with_workers
from components.example_gen.shards import REPORT, write_shard
from detection_core.errors import DataError
from detection_core.progress import Progress
from detection_core.python_process import python_started_by_libraries
from detection_core.storage import files

_logger = logging.getLogger(__name__)

# Measured on 640x480 JPEGs: one core does about 2,000 images a second, and worker processes of Beam's
# DirectRunner take about 15 seconds to start.
_IMAGES_PER_SECOND, _START_SECONDS = 2000, 15
_POLL_SECONDS = 1.0

# What DirectRunner hands its pipelines to. DirectRunner itself, as of Beam 2.77, first tries to download
# another runner.
_LOCAL = ["--runner=FnApiRunner"]
_IN_PROCESSES = "--direct_running_mode=multi_processing"
IN_PROCESS = [*_LOCAL, "--direct_running_mode=in_memory", "--direct_num_workers=1"]


def write_shards(tasks: Mapping[str, int], beam_args: Sequence[str]) -> None:
    """Write every shard.

    One element is one shard: Beam's cost for an element is several times what an image costs, and a shard
    that fails is done again as a whole.

    Args:
        tasks: task path, as `shards.write_tasks` gives it, to its number of records.
        beam_args: Beam's pipeline options; empty: chosen by the size of the work. A runner on other machines
            needs the data and the examples folder on storage that they share.
    """
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    arguments = list(beam_args) or choose_arguments(sum(tasks.values()), len(os.sched_getaffinity(0)))
    _logger.info("ingest | %d images in %d shards | %s", sum(tasks.values()), len(tasks), " ".join(arguments))

    def run() -> None:
        with beam.Pipeline(options=PipelineOptions(flags=arguments)) as pipeline:
            shards = pipeline | "Shards" >> beam.Create([os.fsencode(path) for path in tasks])
            _ = shards | "Write" >> beam.Map(_write_shard)

    with _watched(tasks):
        if _IN_PROCESSES in arguments:
            with python_started_by_libraries():
                run_with_workers(run)
        else:
            run()


def _write_shard(task_path: bytes) -> int:
    # Bytes, because Beam's text coder takes UTF-8 only, and a path on Linux may not be UTF-8.
    return write_shard(os.fsdecode(task_path))


def choose_arguments(images: int, cores: int) -> list[str]:
    """Choose DirectRunner's mode: in this process, or in one process a core for larger data sets.

    Args:
        images: to be read.
        cores: that may be used.
    """
    alone = images / _IMAGES_PER_SECOND
    if alone <= _START_SECONDS + alone / cores:
        return IN_PROCESS
    return [*_LOCAL, _IN_PROCESSES, f"--direct_num_workers={cores}"]


@contextlib.contextmanager
def _watched(tasks: Mapping[str, int]) -> Iterator[None]:
    """Report progress by the shards' report files, which is the same for every runner."""
    over = threading.Event()

    def watch() -> None:
        waiting = {path.replace(".task.json", REPORT): images for path, images in tasks.items()}
        folders = {os.path.dirname(path) for path in waiting}
        with Progress("ingest", total=sum(waiting.values()), unit="image") as progress:
            last = False
            while not last:
                last = over.wait(_POLL_SECONDS)
                # One listing, however many shards wait; on a store each look at a path is a request.
                with contextlib.suppress(DataError, OSError):
                    there = {path for folder in folders for path in files.list_matching(folder, f"*{REPORT}")}
                    if done := there & waiting.keys():
                        progress.advance(sum(waiting.pop(path) for path in done))

    watcher = threading.Thread(target=watch, name="ingest-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
