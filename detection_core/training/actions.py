"""Actions that the training loop calls with every report, such as logging, progress lines and profiles."""

import dataclasses
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.artifacts.model_run import HISTORY, HistoryLine, ValidationLine
from detection_core.detectors.base import TOTAL_LOSS
from detection_core.loggers.base import EVAL, TRAIN, Histogram, Logger, Status
from detection_core.progress import ProgressUpdate, Reporter, default_reporter
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detection_core.training.guard import SkippedUpdate
from detection_core.training.loop_options import StepReport

SCORE = "score"
"""Name of a validation's score in the logs."""


class TrainingAction:
    """A callback of the training loop; its methods do nothing by default."""

    def start(self, step: int) -> None:
        """Handle the start of training at `step`, which is above 0 after a resume."""

    def steps_until_due(self, step: int) -> float:
        """Return the number of updates after which `reached` must be called."""
        return math.inf

    def reached(self, step: int) -> None:
        """Handle the number of updates made, after every call of the compiled function."""

    def report(self, report: StepReport) -> None:
        """Handle a report of the loop."""

    def measured(self, histograms: Mapping[str, Histogram], step: int) -> None:
        """Handle histograms of parameters and gradients."""

    def skipped(self, update: SkippedUpdate) -> str:
        """Handle a skipped update; return a sentence with details for the error, or ""."""
        return ""

    def validated(self, line: ValidationLine) -> None:
        """Handle the result of a validation."""

    def failed(self, error: BaseException) -> None:
        """Handle an error or a stop of the training; `close` follows."""

    def close(self) -> None:
        """Release resources; called once, also after an error."""


class HistoryFile(TrainingAction):
    """Appends one JSON line per report; a resume first drops the lines that will be written again."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lines: list[str] = []

    def start(self, step: int) -> None:
        """Keep the lines up to the step that training resumes from."""
        old = files.read_bytes(self._path).splitlines() if files.exists(self._path) else []
        self._lines = [line.decode() for line in old if _step_of(line) <= step]
        files.write_text(self._path, "".join(f"{line}\n" for line in self._lines))

    def report(self, report: StepReport) -> None:
        """Append a line."""
        line = HISTORY.format_line(
            HistoryLine(
                step=report.step,
                steps=report.steps,
                loss=report.losses[TOTAL_LOSS],
                losses=report.losses,
                learning_rate=report.learning_rate,
                steps_per_second=round(report.steps_per_second, 4),
                time=round(time.time(), 3),
                images_per_second=round(report.images_per_second, 2),
                data_wait=round(report.data_wait, 4),
                memory_bytes=report.memory_bytes,
                device_memory_bytes=report.device_memory_bytes,
                skipped_updates=report.skipped_updates,
            )
        ).rstrip()
        self._lines.append(line)
        if files.is_remote(self._path):
            files.write_text(self._path, "".join(f"{text}\n" for text in self._lines))
            return
        with open(self._path.removeprefix("file://"), "a", encoding="utf-8") as f:
            f.write(f"{line}\n")


def reported_at(path: str, step: int) -> StepReport | None:
    """Return the report of a step from a history file, without its scalars, or None where it has none.

    It serves a training that was killed after its last checkpoint: no further step would give the losses.
    """
    lines = files.read_bytes(path).splitlines() if files.exists(path) else []
    rows = [json.loads(line) for line in lines if _step_of(line) == step]
    names = ("step", "steps", "losses", "learning_rate", "steps_per_second")
    if not rows or any(name not in rows[-1] for name in names):
        return None
    return StepReport(**{name: rows[-1][name] for name in names})


def _step_of(line: bytes) -> float:
    """Return the step of a history line; infinity for an unreadable one, such as a torn last line."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def rates(report: StepReport) -> dict[str, float]:
    """Return the speed and memory numbers of a report by name."""
    found = {
        "learning_rate": report.learning_rate,
        "steps_per_sec": report.steps_per_second,
        "images_per_sec": report.images_per_second,
        "data_wait": report.data_wait,
        "memory_bytes": float(report.memory_bytes),
    }
    if report.device_memory_bytes:
        found["device_memory_bytes"] = float(report.device_memory_bytes)
    return found


class LoggedTraining(TrainingAction):
    """Sends a training to loggers, under the names of the Object Detection API's summaries.

    Args:
        loggers: the loggers, which are closed at the end.
        parameters: config field -> value, logged at the start.
        artifacts: paths of files to log at the start and again at the end.
        pictures: returns images of the last validation, name -> uint8 [H, W, 3].
    """

    def __init__(
        self,
        loggers: Sequence[Logger],
        parameters: Mapping[str, str] | None = None,
        artifacts: Sequence[str] = (),
        pictures: Callable[[], Mapping[str, np.ndarray]] | None = None,
    ) -> None:
        self._pictures = pictures
        self._loggers, self._parameters, self._artifacts = loggers, parameters or {}, artifacts
        self._status: Status = "finished"

    def start(self, step: int) -> None:
        """Log parameters and files."""
        for logger in self._loggers:
            logger.log_parameters(self._parameters)
        self._log_artifacts()

    def report(self, report: StepReport) -> None:
        """Log losses, learning rate, speed and memory."""
        self._log(report.losses | report.scalars | rates(report), report.step, TRAIN)

    def measured(self, histograms: Mapping[str, Histogram], step: int) -> None:
        """Log histograms of parameters and gradients."""
        for logger in self._loggers:
            logger.log_histograms(histograms, step)

    def validated(self, line: ValidationLine) -> None:
        """Log the score, and the metrics under the names of the Object Detection API's evaluation."""
        scores = {**line.metrics, SCORE: line.score}
        self._log({name: value for name, value in scores.items() if value is not None}, line.step, EVAL)
        images = self._pictures() if self._pictures else {}
        for logger in self._loggers if images else ():
            logger.log_images(images, line.step, EVAL)

    def failed(self, error: BaseException) -> None:
        """Keep the error for the final status."""
        self._status = "failed" if isinstance(error, Exception) else "stopped"

    def close(self) -> None:
        """Log the files once more, and close the loggers."""
        try:
            self._log_artifacts()
        finally:
            for logger in self._loggers:
                logger.close(self._status)

    def _log(self, values: Mapping[str, float], step: int, split: str) -> None:
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        for logger in self._loggers:
            logger.log_scalars(finite, step, split)

    def _log_artifacts(self) -> None:
        for path in self._artifacts:
            content = files.read_bytes(path) if files.exists(path) else b""
            for logger in self._loggers if content else ():
                logger.log_artifact(path.rpartition("/")[2], content)


class ProgressLines(TrainingAction):
    """Shows step, rate, time left, losses, last score, learning rate, data wait and memory."""

    def __init__(
        self,
        job: str = "train",
        reporter: Reporter | None = None,
        loss_names: Mapping[str, str] | None = None,
    ) -> None:
        """Set up lines that begin with `job`; `loss_names` maps losses to short names.

        Without a reporter, it is chosen by where standard error goes.
        """
        self._job = job
        self._loss_names = loss_names or {}
        self._score: float | None = None
        self._reporter = reporter or default_reporter()

    def validated(self, line: ValidationLine) -> None:
        """Show this score in the following lines."""
        self._score = line.score

    def report(self, report: StepReport) -> None:
        """Show one line."""
        details: dict[str, float | str] = {"loss": report.losses[TOTAL_LOSS]}
        for name, value in report.losses.items():
            if name != TOTAL_LOSS:
                details[self._loss_names.get(name, name.removeprefix("Loss/"))] = value
        if self._score is not None:
            details["score"] = self._score
        details["lr"] = report.learning_rate
        if report.images_per_second:
            details["images/s"] = report.images_per_second
        details["data wait"] = f"{report.data_wait:.0%}"
        details["memory"] = _gigabytes(report.memory_bytes)
        if report.device_memory_bytes:
            details["GPU memory"] = _gigabytes(report.device_memory_bytes)
        self._reporter(
            ProgressUpdate(
                job=self._job,
                done=report.step,
                total=report.steps,
                rate=report.steps_per_second,
                details=details,
            )
        )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB"


_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """Which updates to trace.

    Attributes:
        first_step: updates before the trace; the first ones of a process compile and are not typical.
        steps: number of traced updates.
    """

    first_step: int = 10
    steps: int = 5


class ProfilerTrace(TrainingAction):
    """Traces a range of updates; a profiler that fails to start or stop does not stop the training.

    A training that resumes within the range traces the rest of it.

    Args:
        options: which updates.
        directory: `plugins/profile/TIME/` is written below it.
    """

    def __init__(self, options: ProfileOptions, directory: str) -> None:
        self._first, self._end = options.first_step, options.first_step + options.steps
        self._directory = directory
        self._scratch = None if files.opened_by_tensorflow(directory) else ScratchFolder()
        self._is_tracing = False

    def start(self, step: int) -> None:
        """Start the trace at once if the step lies within the range."""
        self.reached(step)

    def steps_until_due(self, step: int) -> float:
        """Return the updates until the first or last step of the range."""
        return min((at - step for at in (self._first, self._end) if at > step), default=math.inf)

    def reached(self, step: int) -> None:
        """Start or stop the trace."""
        inside = self._first <= step < self._end
        if inside and not self._is_tracing:
            self._begin(step)
        elif self._is_tracing and not inside:
            self._write()

    def close(self) -> None:
        """Stop the trace of a training that ended within the range."""
        if self._is_tracing:
            self._write()

    def _begin(self, step: int) -> None:
        try:
            tf.profiler.experimental.start(self._scratch.name if self._scratch else self._directory)
        except (tf.errors.OpError, OSError) as error:
            _logger.warning("the profiler does not start, and nothing is traced: %s", error)
            self._end = step  # do not retry
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


class DataWait:
    """Measures the time between requesting and receiving batches.

    A variable holds the time, so that measuring needs no synchronisation; it is read at each report.

    Args:
        clock: seconds, at the same rate as the device's clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = tf.Variable(0.0, dtype=tf.float64, trainable=False, name="data_wait")
        self._clock = clock
        self._read = 0.0
        self._read_at = clock()

    def draw(self, iterator: Iterator[Any]) -> Any:
        """Return the next batch of an iterator; call it inside a `tf.function`, in place of `next`."""
        began = tf.timestamp()
        with tf.control_dependencies([began]):
            batch = next(iterator)
        with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
            self._total.assign_add(tf.timestamp() - began)
        return batch

    def fraction(self) -> float:
        """Return the fraction of the time since the last call that was spent waiting, from 0 to 1."""
        total, now = float(self._total.numpy()), self._clock()
        waited, passed = total - self._read, now - self._read_at
        self._read, self._read_at = total, now
        return min(1.0, max(0.0, waited / passed)) if passed > 0 else 0.0
