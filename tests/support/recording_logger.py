"""A logger that remembers what it is told, and may refuse or take its time."""

import threading
from collections.abc import Mapping
from typing import Any

from detection_core.loggers.base import Logger


class RecordingLogger(Logger):
    """Has an entry of each call in `told`; refuses so many first, and waits for a gate before each."""

    def __init__(self, refuses: int = 0, gate: threading.Event | None = None) -> None:
        self.refuses, self.gate = refuses, gate
        self.told: list[Any] = []

    def _take(self, entry: Any) -> None:
        if self.gate is not None:
            self.gate.wait(30)
        if self.refuses:
            self.refuses -= 1
            raise ConnectionError("no route to host")
        self.told.append(entry)

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
