"""Measure loading a TensorFlow Lite file and its first inference in a new process."""

import dataclasses
import json
import subprocess
import sys
import time

from detection_core.errors import ModelError
from detection_core.python_process import python_command, python_environment

_STATUS = "/proc/self/status"
_RESET_PEAK = "5"
_TIMEOUT_SECONDS = 600


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColdStart:
    """The cost of a first inference.

    Attributes:
        load_ms: time from the file to a ready interpreter, without loading Python and LiteRT.
        first_ms: time of the first inference.
        peak_memory_bytes: growth of the process's peak resident memory by both; None if the system does not
            report it.
    """

    load_ms: float
    first_ms: float
    peak_memory_bytes: int | None


def measure_cold_start(path: str, *, threads: int, delegate: str) -> ColdStart:
    """Load a local file and run it once in a new process, with a delegate of `operator_times.DELEGATES`.

    Raises:
        ModelError: if the process fails, with its last output.
    """
    done = subprocess.run(
        [*python_command(__name__), path, str(threads), delegate],
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_SECONDS,
        env=python_environment(),
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
        raise ModelError(
            f"expected a file that LiteRT runs, found that it does not: {last[0]}; export it again",
            where=path,
        )
    return ColdStart(**json.loads(done.stdout.splitlines()[-1]))


def _measure(path: str, threads: int, delegate: str) -> ColdStart:
    import ai_edge_litert.interpreter  # noqa: F401  # Its loading is not measured.

    from detection_core.exporters.operator_times import fill_inputs, make_interpreter

    before = _reset_peak()
    began = time.perf_counter()
    interpreter = make_interpreter(path, threads=threads, delegate=delegate)
    loaded = time.perf_counter()
    fill_inputs(interpreter)
    filled = time.perf_counter()
    interpreter.invoke()
    ended = time.perf_counter()
    peak = _memory("VmHWM")
    return ColdStart(
        load_ms=(loaded - began) * 1000,
        first_ms=(ended - filled) * 1000,
        peak_memory_bytes=None if peak is None or before is None else max(0, peak - before),
    )


def _reset_peak() -> int | None:
    """Reset the peak of the resident memory if possible, and return it."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write(_RESET_PEAK)
    except OSError:
        return _memory("VmHWM")
    return _memory("VmRSS")


def _memory(field: str) -> int | None:
    """Return a field of the process's status in bytes; None if it is missing."""
    try:
        with open(_STATUS, encoding="ascii") as file:
            found = [line.split()[1] for line in file if line.startswith(f"{field}:")]
    except OSError:
        return None
    return int(found[0]) * 1024 if found else None


if __name__ == "__main__":
    print(json.dumps(dataclasses.asdict(_measure(sys.argv[1], int(sys.argv[2]), sys.argv[3]))))
