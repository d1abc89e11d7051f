"""A logger that records its calls, and may raise or wait first."""

import threading
from collections.abc import Mapping
from typing import Any

from detection_core.loggers.base import Logger


class RecordingLogger(Logger):
    """Records each call in `calls`; the first `refuses` calls raise, and each waits for `gate`."""

    def __init__(self, refuses: int = 0, gate: threading.Event | None = None) -> None:
        self.refuses, self.gate = refuses, gate
        self.calls: list[Any] = []

    def _take(self, entry: Any) -> None:
        if self.gate is not None:
            self.gate.wait(30)
        if self.refuses:
            self.refuses -= 1
            raise ConnectionError("no route to host")
        self.calls.append(entry)

    def log_parameters(self, values: Mapping[str, str]) -> None:
        self._take(dict(values))

    def log_scalars(self, values: Mapping[str, float], step: int, split: str) -> None:
        self._take((dict(values), step, split))

    def log_images(self, images: Mapping[str, Any], step: int, split: str) -> None:
        self._take((sorted(images), step, split))

    def log_histograms(self, values: Mapping[str, Any], step: int) -> None:
        self._take((sorted(values), step))

    def log_artifact(self, name: str, content: bytes) -> None:
        self._take((name, content))

    def close(self, status: str) -> None:
        self._take(status)
