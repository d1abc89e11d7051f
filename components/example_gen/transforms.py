"""The Beam pipeline that writes the shards, with its runner and worker processes."""

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

# Measured on 640x480 JPEGs: one core encodes about 2,000 images a second. Worker processes of Beam's
# DirectRunner take about 15 seconds to start.
_IMAGES_PER_SECOND, _START_SECONDS = 2000, 15
_POLL_SECONDS = 1.0

# The runner behind DirectRunner. As of Beam 2.77, DirectRunner first tries to download another runner.
_LOCAL = ["--runner=FnApiRunner"]
_IN_PROCESSES = "--direct_running_mode=multi_processing"
IN_PROCESS = [*_LOCAL, "--direct_running_mode=in_memory", "--direct_num_workers=1"]


def write_shards(tasks: Mapping[str, int], beam_args: Sequence[str]) -> None:
    """Write the shards of tasks, given as paths from `shards.write_tasks` to numbers of records.

    One element is one shard, because Beam's cost per element is several times that of an image. A failed
    shard is retried as a whole. Empty `beam_args` are chosen by the size of the work. A distributed runner
    needs the data and the examples folder on shared storage.
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
    # Use bytes, because Beam's text coder takes UTF-8 only, and a path on Linux may not be UTF-8.
    return write_shard(os.fsdecode(task_path))


def choose_arguments(images: int, cores: int) -> list[str]:
    """Choose DirectRunner's mode: in this process, or one process per core for larger data sets."""
    alone = images / _IMAGES_PER_SECOND
    if alone <= _START_SECONDS + alone / cores:
        return IN_PROCESS
    return [*_LOCAL, _IN_PROCESSES, f"--direct_num_workers={cores}"]


@contextlib.contextmanager
def _watched(tasks: Mapping[str, int]) -> Iterator[None]:
    """Report progress by the shards' report files, which works with every runner."""
    over = threading.Event()

    def watch() -> None:
        waiting = {path.replace(".task.json", REPORT): images for path, images in tasks.items()}
        folders = {os.path.dirname(path) for path in waiting}
        with Progress("ingest", total=sum(waiting.values()), unit="image") as progress:
            last = False
            while not last:
                last = over.wait(_POLL_SECONDS)
                # List once for all waiting shards; on an object store, each check of a path is a request.
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
    """Run a pipeline on Beam's local runner, and fail when a worker process dies.

    As of Beam 2.77, the thread that waits for a worker process raises if it dies. The runner still waits for
    the worker's answer (SubprocessSdkWorker in runners/portability/local_job_service.py).

    Raises:
        RuntimeError: if a worker has died; the others are killed, so that nothing is written afterwards.
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
        except BaseException as e:  # passed to the waiting thread
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
    """Yield the descendants of a process that run Beam's workers: shells, each after its Python process."""
    for children in Path(f"/proc/{parent}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, children.read_text().split()):
                yield from _workers(child)
                if _WORKER_PROGRAM in Path(f"/proc/{child}/cmdline").read_bytes():
                    yield child
