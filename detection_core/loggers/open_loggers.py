"""The loggers that a config names: metrics as lines, and servers that training never waits for."""

import collections
import dataclasses
import datetime
import importlib.util
import logging
import re
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import numpy as np

from detection_core.capabilities import capability
from detection_core.errors import ConfigError, one_line
from detection_core.loggers.base import EVAL, Histogram, Logger, Status

_logger = logging.getLogger(__name__)

_WAITS = (1.0, 5.0, 30.0)
"""Seconds before each retry of an entry."""


class BackgroundLogger(Logger):
    """Passes everything to another logger in a thread.

    A failed entry is retried a few times. When the queue is full, its oldest entries are dropped. Both are
    logged the first time, and counted at the end. The training's own files contain every entry.

    Args:
        inner: receives the entries, in order, in one thread.
        name: name of the server, for messages.
        most_waiting: largest number of queued entries.
        close_seconds: longest wait for queued entries at the end of a training.
        waits: seconds before each retry.
    """

    def __init__(
        self,
        inner: Logger,
        name: str,
        *,
        most_waiting: int = 2000,
        close_seconds: float = 60.0,
        waits: tuple[float, ...] = _WAITS,
    ) -> None:
        self._inner, self._name = inner, name
        self._close_seconds, self._waits = close_seconds, waits
        self._entries: collections.deque[Callable[[], None]] = collections.deque()
        self._most = most_waiting
        self._changed = threading.Condition()
        self._closing = False
        self._dropped = 0
        self._warned = False
        self._thread = threading.Thread(target=self._deliver, name=f"log-to-{name}", daemon=True)
        self._thread.start()

    def log_parameters(self, values: Mapping[str, str]) -> None:
        """Queue the parameters."""
        self._add(self._inner.log_parameters, values)

    def log_scalars(self, values: Mapping[str, float], step: int, split: str) -> None:
        """Queue the numbers."""
        self._add(self._inner.log_scalars, values, step, split)

    def log_images(self, images: Mapping[str, np.ndarray], step: int, split: str) -> None:
        """Queue the pictures."""
        self._add(self._inner.log_images, images, step, split)

    def log_histograms(self, values: Mapping[str, Histogram], step: int) -> None:
        """Queue the histograms."""
        self._add(self._inner.log_histograms, values, step)

    def log_artifact(self, name: str, content: bytes) -> None:
        """Queue the file."""
        self._add(self._inner.log_artifact, name, content)

    def close(self, status: Status) -> None:
        """Wait a limited time for the queue, and warn about entries that were not delivered."""
        self._add(self._inner.close, status)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(self._close_seconds)
        with self._changed:
            lost = self._dropped + len(self._entries) + (1 if self._thread.is_alive() else 0)
        if lost:
            _logger.warning(
                "%s: %d entries were not delivered; history.jsonl and validation.jsonl have all numbers",
                self._name,
                lost,
            )

    def _add(self, method: Callable[..., None], *arguments: Any) -> None:
        with self._changed:
            if len(self._entries) >= self._most:
                self._entries.popleft()
                self._dropped += 1
            self._entries.append(lambda: method(*arguments))
            self._changed.notify_all()

    def _deliver(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._entries or self._closing)
                if not self._entries:
                    return
                entry = self._entries.popleft()
            if not self._delivered(entry):
                with self._changed:
                    self._dropped += 1

    def _delivered(self, entry: Callable[[], None]) -> bool:
        for wait in (*self._waits, None):
            try:
                entry()
                return True
            # Errors of a client library must not end a training.
            except Exception as error:
                self._warn_once(error)
            if wait is None:
                break
            with self._changed:
                self._changed.wait_for(lambda: self._closing, wait)
        return False

    def _warn_once(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            text = one_line(f"{type(error).__name__}: {error}", 300)
            _logger.warning(
                "%s cannot be reached, or refuses an entry; training goes on: %s", self._name, text
            )


_NOT_A_NAME = re.compile(r"[^\w-]+")


class MetricLines(Logger):
    """Prints a line `time name=value` for each metric of a validation, flushed at once.

    By default, Katib's metrics collector reads this format from standard output (kubeflow/katib,
    pkg/metricscollector/v1beta1). A line has an RFC 3339 time, then a name of words and hyphens. Other
    characters in a name become one `_`: `DetectionBoxes_Precision_mAP`. Numbers have no exponent, because
    Katib's older collectors do not read it.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def log_scalars(self, values: Mapping[str, float], step: int, split: str) -> None:
        """Print the metrics of a validation."""
        if split != EVAL:
            return
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        for name, value in values.items():
            print(f"{now} {metric_name(name)}={value:.10f}", file=self._stream or sys.stdout, flush=True)


def metric_name(name: str) -> str:
    """Return a metric's printed name."""
    return _NOT_A_NAME.sub("_", name).strip("_")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoggerOptions:
    """Loggers of a training beside TensorBoard and its own files.

    Attributes:
        trackers: tracking server (a key of `TRACKERS`) to its options.
        metric_lines: print the metrics of each validation as `name=value`.
    """

    trackers: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    metric_lines: bool = False


NO_LOGGERS = LoggerOptions()

TRACKERS = {"mlflow": "MLflow", "wandb": "Weights & Biases"}
"""Maps a tracking server to its full name.

The short name is also the name of its package, extra, capability and config field.
"""
_PACKAGES = {"mlflow": "detection_core.optional.mlflow", "wandb": "detection_core.optional.wandb"}


def check_loggers(options: LoggerOptions) -> None:
    """Refuse a tracking server without its package; ConfigError says how to install it."""
    for tracker in options.trackers:
        if importlib.util.find_spec(tracker) is None:
            raise ConfigError(
                f"expected the package {tracker}, which {TRACKERS[tracker]} needs, found none; install it"
                f" with `pip install 'detflow[{tracker}]'`",
                where=f"train_config.monitoring.{tracker}",
            )


def open_loggers(options: LoggerOptions, folder: str) -> list[Logger]:
    """Open the loggers of a training after `check_loggers`; `folder` keeps the ids of their runs."""
    check_loggers(options)
    lines: list[Logger] = [MetricLines()] if options.metric_lines else []
    trackers = options.trackers.items()
    return lines + [
        BackgroundLogger(capability(_PACKAGES[tracker]).open_run(values, folder), TRACKERS[tracker])
        for tracker, values in trackers
    ]
