"""Time a TensorFlow Lite file in LiteRT on this machine's CPU."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from detection_core.exporters.delegation import make_interpreter
from detection_core.storage import files

WARM_UP_RUNS = 3


def measure_latency(path: str, *, threads: int, runs: int = 20) -> float:
    """Return the median time of an inference with XNNPACK, post-processing included, in milliseconds.

    Args:
        path: of a TensorFlow Lite file.
        threads: threads that the interpreter may use.
        runs: timed inferences, after a few warm-up runs.
    """
    content = files.read_bytes(path)
    return statistics.median(time_inferences(content, threads=threads, delegate="xnnpack", runs=runs))


def time_inferences(content: bytes, *, threads: int, delegate: str, runs: int) -> list[float]:
    """Return the times of single inferences on noise, in milliseconds and in order.

    Args:
        content: a TensorFlow Lite file.
        threads: threads that the interpreter may use.
        delegate: of `delegation.DELEGATES`.
        runs: timed inferences, after a few warm-up runs.
    """
    interpreter = make_interpreter(content, threads=threads, delegate=delegate)
    fill_inputs(interpreter)
    times = []
    for run in range(WARM_UP_RUNS + runs):
        began = time.perf_counter()
        interpreter.invoke()
        if run >= WARM_UP_RUNS:
            times.append((time.perf_counter() - began) * 1000)
    return times


def fill_inputs(interpreter: Any) -> None:
    """Fill an interpreter's inputs with noise: all codes of an integer input, -1..1 of a float one."""
    for details in interpreter.get_input_details():
        noise = np.random.default_rng(0).uniform(0, 1, details["shape"])
        dtype = np.dtype(details["dtype"])
        if np.issubdtype(dtype, np.integer):
            codes = np.iinfo(dtype)
            noise = np.floor(codes.min + noise * (float(codes.max) - codes.min))
        else:
            noise = noise * 2 - 1
        interpreter.set_tensor(details["index"], noise.astype(dtype))
