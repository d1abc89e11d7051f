"""Worker processes of Beam's own runner, which waits for ever for one that has died."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

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
