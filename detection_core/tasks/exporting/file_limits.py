"""Limits on the size, latency and memory of exported files."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Collection, Mapping

from detection_core.errors import ConfigError
from detection_core.exporters.cold_start import measure_cold_start
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder

Limits = Mapping[str, Mapping[str, float]]
"""Format of a file to its limits, by keys of `LIMITS`."""

LIMITS = {
    "size_mb": "size of the file, millions of bytes",
    "latency_ms": "median of an inference with one thread and XNNPACK, milliseconds",
    "memory_mb": "by how much loading and a first inference raise a process's memory, millions of bytes",
}
_MEGA = 1e6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Footprint:
    """Size, latency and memory of a file.

    Attributes:
        size_bytes: of the file.
        latency_ms: threads to median milliseconds of an inference; empty if not measured.
        peak_memory_bytes: growth of a process's peak memory by loading and a first inference; None if not
            measured.
    """

    size_bytes: int
    latency_ms: Mapping[str, float]
    peak_memory_bytes: int | None = None

    def exceeded(self, limits: Mapping[str, float]) -> list[str]:
        """Return a clause for each limit that is exceeded, or could not be measured."""
        measured = {
            "size_mb": self.size_bytes / _MEGA,
            "latency_ms": self.latency_ms.get("1"),
            "memory_mb": None if self.peak_memory_bytes is None else self.peak_memory_bytes / _MEGA,
        }
        return [
            _clause(name, measured[name], bound)
            for name, bound in limits.items()
            if _is_beyond(measured[name], bound)
        ]


def _is_beyond(value: float | None, bound: float) -> bool:
    return value is None or value > bound


def _clause(name: str, value: float | None, bound: float) -> str:
    if value is None:
        return f"{name} could not be measured here, and at most {bound:g} is allowed"
    return f"{name} {value:.3g} is more than {bound:g}"


def check_limits(limits: Limits, formats: Collection[str]) -> None:
    """Refuse limits for other formats, unknown limits, and limits that no file can meet.

    Args:
        limits: format to limits.
        formats: formats to export.

    Raises:
        ConfigError: names the format and the limit.
    """
    for name, bounds in limits.items():
        if name not in formats:
            raise ConfigError(
                f"expected limits of files that are made ({', '.join(formats)}), found {name}", where="limits"
            )
        for kind, bound in bounds.items():
            if kind not in LIMITS:
                raise ConfigError(
                    f"expected some of {', '.join(LIMITS)}, found {kind}", where=f"limits.{name}"
                )
            is_number = isinstance(bound, int | float) and not isinstance(bound, bool)
            if not is_number or not math.isfinite(bound) or bound <= 0:
                raise ConfigError(
                    f"expected a number above 0, found {bound!r}", where=f"limits.{name}.{kind}"
                )


def measure_memory(path: str) -> int | None:
    """Measure the growth of a process's peak memory by loading a file and one inference, with one thread.

    Args:
        path: of a TensorFlow Lite file, local or on an object store.
    """
    with ScratchFolder() as folder:
        local = path
        if files.is_remote(path):
            local = os.path.join(folder, "model.tflite")
            files.copy_file(path, local)
        return measure_cold_start(local, threads=1, delegate="xnnpack").peak_memory_bytes
