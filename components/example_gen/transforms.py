"""The Beam pipeline that writes the shards, and how it is run."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

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


_WORKER_THREAD = "run_worker"
_WORKER_PROGRAM = b"sdk_worker_main"


def run_with_workers(run: Callable[[], None]) -> None:
    """Run a pipeline on Beam's own runner, and fail when a process of its workers dies.

    As of Beam 2.77 the thread that waits for such a process raises (SubprocessSdkWorker in
    runners/portability/local_job_service.py), and the runner goes on waiting for the worker's answer.

    Args:
        run: runs the pipeline to its end.

    Raises:
        RuntimeError: when a worker has died; the others are killed, so that nothing is written after this.
    """
    outcome: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    before = threading.excepthook

    def hook(args: threading.ExceptHookArgs) -> None:
        if args.thread is not None and args.thread.name == _WORKER_THREAD:
            died = RuntimeError(
                f"expected Beam's workers to live until the end, found that one has died ({args.exc_value}): "
                "memory may have been short; run again, with fewer workers (beam.args)"
            )
            outcome.put(died)
        else:
            before(args)

    def work() -> None:
        try:
            run()
        except BaseException as e:  # handed to the thread that waits
            outcome.put(e)
        else:
            outcome.put(None)

    runner = threading.Thread(target=work, name="beam-runner", daemon=True)
    threading.excepthook = hook
    ended = False
    try:
        runner.start()
        error = outcome.get()
        ended = error is None
    finally:
        if not ended:
            _kill_workers()
        threading.excepthook = before
    if error is not None:
        raise error
    runner.join()


def _kill_workers() -> None:
    for process in _workers(os.getpid()):
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)


def _workers(parent: int) -> Iterator[int]:
    """Yield the processes below one that run Beam's workers: shells, and the Python below each first."""
    for children in Path(f"/proc/{parent}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, children.read_text().split()):
                yield from _workers(child)
                if _WORKER_PROGRAM in Path(f"/proc/{child}/cmdline").read_bytes():
                    yield child
