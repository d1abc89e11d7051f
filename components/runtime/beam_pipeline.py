"""Runs Beam pipelines; with the local runner, fails when a worker process dies."""

import contextlib
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from detection_core.python_process import descendants, python_started_by_libraries

# The runner behind DirectRunner. As of Beam 2.77, DirectRunner first tries to download another runner.
_LOCAL = ["--runner=FnApiRunner"]
_PROCESSES = "--direct_running_mode=multi_processing"
IN_PROCESS = [*_LOCAL, "--direct_running_mode=in_memory", "--direct_num_workers=1"]


def in_processes(count: int) -> list[str]:
    """Return the options of the local runner with some worker processes."""
    return [*_LOCAL, _PROCESSES, f"--direct_num_workers={count}"]


def run_pipeline(build: Callable[[Any], None], arguments: Sequence[str]) -> None:
    """Run the pipeline that a function builds, with Beam's pipeline options.

    Raises:
        RuntimeError: if a worker process of the local runner has died, as for lack of memory.
    """
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    def run() -> None:
        with beam.Pipeline(options=PipelineOptions(flags=list(arguments))) as pipeline:
            build(pipeline)

    if _PROCESSES in arguments:
        with python_started_by_libraries():
            run_with_workers(run)
    else:
        run()


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
            for process in _workers(os.getpid()):
                with contextlib.suppress(OSError):
                    os.kill(process, signal.SIGKILL)
        threading.excepthook = before
    if error is not None:
        raise error
    runner.join()


def _workers(parent: int) -> Iterator[int]:
    """Yield the descendants of a process that run Beam's workers: shells, each after its Python process."""
    for process in descendants(parent):
        with contextlib.suppress(OSError):
            if _WORKER_PROGRAM in Path(f"/proc/{process}/cmdline").read_bytes():
                yield process
