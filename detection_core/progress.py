"""Show the progress of a long job: one rewritten line on a terminal, log lines elsewhere."""

import collections
import dataclasses
import logging
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import IO

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProgressUpdate:
    """Progress of a job.

    Attributes:
        job: name of the job, the first word of the line: `train`, `ingest`, `evaluate`.
        done: finished units.
        total: all units; 0 if unknown.
        unit: name of a unit, in the singular.
        rate: units a second; 0 if not yet known.
        details: further numbers or texts, shown in this order.
    """

    job: str
    done: int
    total: int
    unit: str = "step"
    rate: float = 0.0
    details: Mapping[str, float | str] = dataclasses.field(default_factory=dict)

    @property
    def eta_seconds(self) -> float:
        """Estimated remaining seconds; -1 if unknown."""
        return (self.total - self.done) / self.rate if self.total and self.rate > 0 else -1.0

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return bool(self.total) and self.done >= self.total


Reporter = Callable[[ProgressUpdate], None]


def format_duration(seconds: float) -> str:
    """Format seconds as M:SS, or H:MM:SS from an hour on."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _three_digits(value: float) -> str:
    """Format three significant digits, without an exponent for everyday sizes."""
    size = abs(value)
    if size == 0:
        return "0"
    if size < 1e-4 or size >= 1e6:
        return f"{value:.2e}"
    if size >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:#.2g}"


def format_progress(update: ProgressUpdate) -> str:
    """Format an update as a line, such as `train | step 120/500 | 8.4 steps/s | ETA 0:45 | loss 1.83`."""
    of = f"/{update.total}" if update.total else ""
    parts = [update.job, f"{update.unit} {update.done}{of}"]
    if update.rate > 0:
        rate = f"{update.rate:.0f}" if update.rate >= 100 else f"{update.rate:.1f}"
        if update.rate < 1:
            rate = f"{update.rate:.2g}"
        parts.append(f"{rate} {update.unit}s/s")
    if update.eta_seconds >= 0 and not update.finished:
        parts.append(f"ETA {format_duration(update.eta_seconds)}")
    for name, value in update.details.items():
        parts.append(f"{name} {value if isinstance(value, str) else _three_digits(value)}")
    return " | ".join(parts)


class TerminalReporter:
    """Rewrites one line of a terminal; the last line of a job stays."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __call__(self, update: ProgressUpdate) -> None:
        """Show the update."""
        width = shutil.get_terminal_size().columns - 1
        # Carriage return and "erase to the end of the line" remove the rest of a longer line.
        end = "\n" if update.finished else ""
        self._stream.write(f"\r\x1b[K{format_progress(update)[:width]}{end}")
        self._stream.flush()


def log_reporter(update: ProgressUpdate) -> None:
    """Write the update as a log line."""
    _logger.info("%s", format_progress(update))


def default_reporter() -> Reporter:
    """Choose a reporter by standard error: a rewritten line for a terminal, log lines otherwise."""
    return TerminalReporter(sys.stderr) if sys.stderr.isatty() else log_reporter


_MARKS = 9


class RateMeter:
    """Moving average of the units a second, over the last few marks."""

    def __init__(self) -> None:
        self._marks: collections.deque[tuple[float, int]] = collections.deque(maxlen=_MARKS)

    def mark(self, done: int) -> float:
        """Record how much is done and return the rate, 0 at the first mark."""
        self._marks.append((time.monotonic(), done))
        (start, first), (end, last) = self._marks[0], self._marks[-1]
        return (last - first) / (end - start) if end > start else 0.0


class Progress:
    """Counts units and reports at intervals; for loops that do not log by step.

    Example:
        with Progress("evaluate", total=500, unit="image") as progress:
            for image in images:
                ...
                progress.advance()
    """

    def __init__(
        self,
        job: str,
        *,
        total: int = 0,
        done: int = 0,
        unit: str = "step",
        per_unit: int = 1,
        reporter: Reporter | None = None,
    ) -> None:
        """Begin at `done`; `per_unit` of what is counted, such as bytes, is one shown unit."""
        self._job, self._total, self._unit, self._per_unit = job, total, unit, per_unit
        self._report = reporter or default_reporter()
        self._every = 0.2 if isinstance(self._report, TerminalReporter) else 10.0
        self._meter = RateMeter()
        self._done = done
        self._reported = -1
        self._last = time.monotonic()
        self._meter.mark(done)

    def advance(self, by: int = 1, **details: float) -> None:
        """Count finished units; report at intervals and at the end."""
        self._done += by
        finished = bool(self._total) and self._done >= self._total
        if finished or time.monotonic() - self._last >= self._every:
            self._emit(details)

    def _emit(self, details: Mapping[str, float]) -> None:
        self._last = time.monotonic()
        self._reported = self._done
        self._report(
            ProgressUpdate(
                job=self._job,
                done=-(-self._done // self._per_unit),
                total=-(-self._total // self._per_unit),
                unit=self._unit,
                rate=self._meter.mark(self._done) / self._per_unit,
                details=details,
            )
        )

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        """Report the end of a job whose total was not known."""
        if not self._total and exception[0] is None and self._reported != self._done:
            self._total = self._done
            self._emit({})
