"""A trace of some updates, on request, as TensorBoard's profiler shows it."""

from __future__ import annotations

import dataclasses
import logging
import math

import tensorflow as tf

from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detection_core.training.actions import TrainingAction

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """Which updates to trace.

    Attributes:
        first_step: updates that come before; the first of a process compile, and tell little.
        steps: how many are traced.
    """

    first_step: int = 10
    steps: int = 5


class ProfilerTrace(TrainingAction):
    """Traces a span of updates; a profiler that does not start or end costs the training nothing.

    Of a training that is taken up inside of the span, the rest is traced.

    Args:
        options: which updates.
        directory: gets `plugins/profile/TIME/`.
    """

    def __init__(self, options: ProfileOptions, directory: str) -> None:
        self._first, self._end = options.first_step, options.first_step + options.steps
        self._directory = directory
        native = files.opened_by_tensorflow(directory)
        self._scratch = None if native else ScratchFolder()
        self._is_tracing = False

    def start(self, step: int) -> None:
        """Begin at once where the span has begun."""
        self.reached(step)

    def steps_until_due(self, step: int) -> float:
        """Stop at the first and at the last step of the span."""
        return min((at - step for at in (self._first, self._end) if at > step), default=math.inf)

    def reached(self, step: int) -> None:
        """Begin or end the trace."""
        inside = self._first <= step < self._end
        if inside and not self._is_tracing:
            self._begin(step)
        elif self._is_tracing and not inside:
            self._write()

    def close(self) -> None:
        """End the trace of a training that ended inside of the span."""
        if self._is_tracing:
            self._write()

    def _begin(self, step: int) -> None:
        try:
            tf.profiler.experimental.start(self._scratch.name if self._scratch else self._directory)
        except (tf.errors.OpError, OSError) as error:
            _logger.warning("the profiler does not start, and nothing is traced: %s", error)
            self._end = step  # it is not asked again
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
