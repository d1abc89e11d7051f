"""The loggers that a config names."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping

from detection_core.capabilities import capability
from detection_core.errors import ConfigError
from detection_core.loggers.background import BackgroundLogger
from detection_core.loggers.base import Logger
from detection_core.loggers.metric_lines import MetricLines


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
    """Refuse a tracking server whose package is not installed.

    Raises:
        ConfigError: naming the package and how to install it.
    """
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
