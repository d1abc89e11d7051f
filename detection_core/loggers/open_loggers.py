"""The loggers that a config names: metrics as lines, and servers that training never waits for."""

import collections
import dataclasses
import datetime
import logging
import re
import threading
from collections.abc import Callable, Mapping
from typing import cast

from detection_core.capabilities import capability, import_extra
from detection_core.errors import one_line
from detection_core.loggers.base import EVAL, Logger, Status

_logger = logging.getLogger(__name__)

_WAITS = (1.0, 5.0, 30.0)
"""Seconds before each retry of an entry."""
_MOST_WAITING = 2000
_CLOSE_SECONDS = 60.0
"""Longest wait for queued entries at the end of a training."""


class BackgroundLogger:
    """Has the methods of a logger, and passes everything to this one, `inner`, in one thread and in order.

    A failed entry is retried a few times. When the queue is full, its oldest entries are dropped. Both are
    logged the first time, and counted at the end. The training's own files contain every entry. `name` is
    that of the server, for messages.
    """

    def __init__(self, inner: Logger, name: str) -> None:
        self._inner, self._name = inner, name
        self._entries: collections.deque[Callable[[], None]] = collections.deque(maxlen=_MOST_WAITING)
        self._changed = threading.Condition()
        self._closing = self._warned = False
        self._undelivered = 0
        self._thread = threading.Thread(target=self._deliver, name=f"log-to-{name}", daemon=True)
        self._thread.start()

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return a function that queues a call of the logger's method."""
        method = getattr(self._inner, name)
        return lambda *arguments: self._add(lambda: method(*arguments))

    def close(self, status: Status) -> None:
        """Wait a limited time for the queue, and warn about entries that were not delivered."""
        self._add(lambda: self._inner.close(status))
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(_CLOSE_SECONDS)
        if self._undelivered:
            _logger.warning(
                "%s: %d entries were not delivered; history.jsonl and validation.jsonl have all numbers",
                self._name,
                self._undelivered,
            )

    def _add(self, entry: Callable[[], None]) -> None:
        with self._changed:
            self._entries.append(entry)
            self._undelivered += 1
            self._changed.notify_all()

    def _deliver(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._entries or self._closing)
                if not self._entries:
                    return
                entry = self._entries.popleft()
            if self._delivered(entry):
                with self._changed:
                    self._undelivered -= 1

    def _delivered(self, entry: Callable[[], None]) -> bool:
        for wait in (*_WAITS, None):
            try:
                entry()
                return True
            # Errors of a client library must not end a training.
            except Exception as error:
                self._warn_once(error)
            if wait is not None:
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

    def log_scalars(self, values: Mapping[str, float], step: int, split: str) -> None:
        """Print the metrics of a validation."""
        if split != EVAL:
            return
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        for name, value in values.items():
            print(f"{now} {metric_name(name)}={value:.10f}", flush=True)


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
        import_extra(tracker, tracker, TRACKERS[tracker], f"train_config.monitoring.{tracker}")


def open_loggers(options: LoggerOptions, folder: str) -> list[Logger]:
    """Open the loggers of a training after `check_loggers`; `folder` keeps the ids of their runs."""
    loggers: list[Logger] = [MetricLines()] if options.metric_lines else []
    for tracker, values in options.trackers.items():
        run = capability(_PACKAGES[tracker]).open_run(values, folder)
        loggers.append(cast(Logger, BackgroundLogger(run, TRACKERS[tracker])))
    return loggers
