"""The loggers that a config names."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from detection_core.errors import ConfigError
from detection_core.loggers.background import BackgroundLogger
from detection_core.loggers.base import Logger
from detection_core.loggers.metric_lines import MetricLines
from detection_core.loggers.mlflow_run import MlflowLogger, MlflowOptions
from detection_core.loggers.run_ids import RunIds
from detection_core.loggers.wandb_run import WandbLogger, WandbOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoggerOptions:
    """Where a training is followed beside TensorBoard and its own files.

    Attributes:
        trackers: options of each tracking server.
        metric_lines: the metrics of each validation are printed as `name=value`.
    """

    trackers: tuple[MlflowOptions | WandbOptions, ...] = ()
    metric_lines: bool = False


NO_LOGGERS = LoggerOptions()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Tracker:
    """A tracking server.

    Attributes:
        name: as people know it.
        extra: of the distribution; its package and its field in the config are called the same.
        make: its logger, of options and the folder of the training.
    """

    name: str
    extra: str
    make: Callable[[Any, str], Logger]


_TRACKERS: Mapping[type, _Tracker] = {
    MlflowOptions: _Tracker(
        name="MLflow",
        extra="mlflow",
        make=lambda options, folder: MlflowLogger(options, RunIds(folder)),
    ),
    WandbOptions: _Tracker(
        name="Weights & Biases",
        extra="wandb",
        make=lambda options, folder: WandbLogger(options, RunIds(folder), folder),
    ),
}


def check_loggers(options: LoggerOptions) -> None:
    """Refuse a tracking server whose package is not installed, before any work is done.

    Raises:
        ConfigError: naming the package and how it is installed.
    """
    for tracker in (_TRACKERS[type(each)] for each in options.trackers):
        if importlib.util.find_spec(tracker.extra) is None:
            raise ConfigError(
                f"expected the package {tracker.extra}, which {tracker.name} needs, found none; install it"
                f" with `pip install 'detflow[{tracker.extra}]'`",
                where=f"train_config.monitoring.{tracker.extra}",
            )


def open_loggers(options: LoggerOptions, folder: str) -> list[Logger]:
    """Return the loggers of a training.

    Args:
        options: which.
        folder: of the unfinished training, where the ids of its runs stay.

    Raises:
        ConfigError: as `check_loggers`.
    """
    check_loggers(options)
    lines: list[Logger] = [MetricLines()] if options.metric_lines else []
    for each in options.trackers:
        tracker = _TRACKERS[type(each)]
        lines.append(BackgroundLogger(tracker.make(each, folder), tracker.name))
    return lines
