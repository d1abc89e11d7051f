"""Metrics as lines on standard output, for metrics collectors."""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Mapping
from typing import TextIO

from detection_core.loggers.base import EVAL, Logger

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
