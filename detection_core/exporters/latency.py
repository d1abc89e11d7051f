"""How long a TensorFlow Lite file takes, in LiteRT with XNNPACK, on this machine's processor."""

from __future__ import annotations

import statistics
import time

import numpy as np

WARM_UP_RUNS = 3


def measure_latency(path: str, *, threads: int, runs: int = 20) -> float:
    """Return the median time of an inference, post-processing included, in milliseconds.

    Args:
        path: local path of a TensorFlow Lite file.
        threads: threads that the interpreter may use.
        runs: timed inferences, after a few that are not.
    """
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=path, num_threads=threads)
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()[0]
    noise = np.random.default_rng(0).uniform(0, 1, details["shape"])
    values = (noise * 255).astype(np.uint8) if details["dtype"] == np.uint8 else (noise * 2 - 1)
    interpreter.set_tensor(details["index"], values.astype(details["dtype"]))
    times = []
    for run in range(WARM_UP_RUNS + runs):
        began = time.perf_counter()
        interpreter.invoke()
        if run >= WARM_UP_RUNS:
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000
