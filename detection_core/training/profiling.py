"""Profile a training: traces of updates, and the time spent waiting for batches."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detection_core.training.actions import TrainingAction

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """Which updates to trace.

    Attributes:
        first_step: updates before the trace; the first ones of a process compile and are not typical.
        steps: number of traced updates.
    """

    first_step: int = 10
    steps: int = 5


class ProfilerTrace(TrainingAction):
    """Traces a range of updates; a profiler that fails to start or stop does not stop the training.

    A training that resumes within the range traces the rest of it.

    Args:
        options: which updates.
        directory: `plugins/profile/TIME/` is written below it.
    """

    def __init__(self, options: ProfileOptions, directory: str) -> None:
        self._first, self._end = options.first_step, options.first_step + options.steps
        self._directory = directory
        native = files.opened_by_tensorflow(directory)
        self._scratch = None if native else ScratchFolder()
        self._is_tracing = False

    def start(self, step: int) -> None:
        """Start the trace at once if the step lies within the range."""
        self.reached(step)

    def steps_until_due(self, step: int) -> float:
        """Return the updates until the first or last step of the range."""
        return min((at - step for at in (self._first, self._end) if at > step), default=math.inf)

    def reached(self, step: int) -> None:
        """Start or stop the trace."""
        inside = self._first <= step < self._end
        if inside and not self._is_tracing:
            self._begin(step)
        elif self._is_tracing and not inside:
            self._write()

    def close(self) -> None:
        """Stop the trace of a training that ended within the range."""
        if self._is_tracing:
            self._write()

    def _begin(self, step: int) -> None:
        try:
            tf.profiler.experimental.start(self._scratch.name if self._scratch else self._directory)
        except (tf.errors.OpError, OSError) as error:
            _logger.warning("the profiler does not start, and nothing is traced: %s", error)
            self._end = step  # do not retry
            return
        self._is_tracing = True
        _logger.info("tracing the updates from %d to %d", step, self._end)

    def _write(self) -> None:
        self._is_tracing = False
        try:
            tf.profiler.experimental.stop()
            if self._scratch is not None:
                files.copy_tree(self._scratch.name, self._directory)
        except (tf.errors.OpError, OSError) as error:
            _logger.warning("the trace is lost: %s", error)
            return
        _logger.info("the trace is in %s", files.join(self._directory, "plugins", "profile"))


class DataWait:
    """Measures the time between requesting and receiving batches.

    A variable holds the time, so that measuring needs no synchronisation; it is read at each report.

    Args:
        clock: seconds, at the same rate as the device's clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = tf.Variable(0.0, dtype=tf.float64, trainable=False, name="data_wait")
        self._clock = clock
        self._read = 0.0
        self._read_at = clock()

    def draw(self, iterator: Iterator[Any]) -> Any:
        """Return the next batch of an iterator; call it inside a `tf.function`, in place of `next`."""
        began = tf.timestamp()
        with tf.control_dependencies([began]):
            batch = next(iterator)
        with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
            self._total.assign_add(tf.timestamp() - began)
        return batch

    def fraction(self) -> float:
        """Return the fraction of the time since the last call that was spent waiting, from 0 to 1."""
        total, now = float(self._total.numpy()), self._clock()
        waited, passed = total - self._read, now - self._read_at
        self._read, self._read_at = total, now
        return min(1.0, max(0.0, waited / passed)) if passed > 0 else 0.0
