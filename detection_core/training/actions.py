"""What happens beside the updates: each action is called with every report of the loop."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping

import tensorflow as tf

from detection_core.artifacts.model_run import HISTORY, HistoryLine, ValidationLine
from detection_core.detectors.base import TOTAL_LOSS
from detection_core.progress import ProgressUpdate, Reporter, default_reporter
from detection_core.storage import files
from detection_core.training.loop_options import StepReport


class TrainingAction:
    """Something that follows a training; the default does nothing."""

    def start(self, step: int) -> None:
        """Learn at which step training begins, above 0 after a resume."""

    def report(self, report: StepReport) -> None:
        """Learn where training stands."""

    def validated(self, line: ValidationLine) -> None:
        """Learn what a validation found."""

    def close(self) -> None:
        """Let go of files; called once, also after an error."""


class HistoryFile(TrainingAction):
    """Appends one JSON line a report; lines that a resumed training will write again are dropped first."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lines: list[str] = []

    def start(self, step: int) -> None:
        """Keep the lines up to the step that training resumes from."""
        old = files.read_text(self._path).splitlines() if files.exists(self._path) else []
        self._lines = [line for line in old if _step_of(line) <= step]
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
            )
        ).rstrip()
        self._lines.append(line)
        if files.is_remote(self._path):
            files.write_text(self._path, "".join(f"{text}\n" for text in self._lines))
            return
        with files.open_file(self._path, "a") as f:
            f.write(f"{line}\n")


def reported_at(path: str, step: int) -> StepReport | None:
    """Return what a history file says of a step, the scalars aside; None where it says nothing of it.

    For a training that was killed between its last checkpoint and what is made of it: no step is left that
    would tell the losses.

    Args:
        path: of the history file.
        step: updates applied.
    """
    lines = files.read_text(path).splitlines() if files.exists(path) else []
    rows = [json.loads(line) for line in lines if _step_of(line) == step]
    names = ("step", "steps", "losses", "learning_rate", "steps_per_second")
    if not rows or any(name not in rows[-1] for name in names):
        return None
    return StepReport(**{name: rows[-1][name] for name in names})


def _step_of(line: str) -> float:
    """The step of a history line; infinite for the torn last line of a killed training."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


class TensorBoardFile(TrainingAction):
    """An event file of TensorBoard.

    `tf.summary.scalar` needs the TensorBoard package, which training need not have installed; the record is
    the same. On a store that TensorFlow does not open, the file appears when the training ends, or was
    stopped by a signal; `history.jsonl` and `validation.jsonl` have the numbers of one that was killed.
    """

    _METADATA = tf.compat.v1.SummaryMetadata(
        plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"), data_class=1
    )

    def __init__(self, directory: str) -> None:
        self._directory = directory
        native = files.opened_by_tensorflow(directory)
        self._scratch = None if native else tempfile.TemporaryDirectory(prefix="logs-")
        self._writer = tf.summary.create_file_writer(self._scratch.name if self._scratch else directory)

    def write(self, scalars: Mapping[str, float], step: int) -> None:
        """Write numbers of a step."""
        with self._writer.as_default(step=step):
            for name, value in scalars.items():
                tf.summary.write(name, tf.constant(value, tf.float32), metadata=self._METADATA)
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()
        if self._scratch is not None:
            files.copy_tree(self._scratch.name, self._directory)


def rates(report: StepReport) -> dict[str, float]:
    """Name the numbers of a report that tell how fast training is, and what it takes."""
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


class TensorBoardScalars(TensorBoardFile):
    """Writes losses, learning rate and speed under the Object Detection API's summary names."""

    def report(self, report: StepReport) -> None:
        """Write the scalars of a step."""
        self.write(report.losses | report.scalars | rates(report), report.step)


class TensorBoardValidation(TensorBoardFile):
    """Writes the metrics of each validation, which the Object Detection API's evaluation calls the same."""

    def validated(self, line: ValidationLine) -> None:
        """Write the metrics of a step."""
        self.write({name: value for name, value in line.metrics.items() if value is not None}, line.step)


class ProgressLines(TrainingAction):
    """Shows step, rate, time left, losses, the last score, learning rate, waiting and memory."""

    def __init__(
        self,
        job: str = "train",
        reporter: Reporter | None = None,
        loss_names: Mapping[str, str] | None = None,
    ) -> None:
        """Say what to show.

        Args:
            job: first word of the lines.
            reporter: what shows progress; chosen by where standard error goes when not given.
            loss_names: name of a part of the loss -> its short name, as its family lists them.
        """
        self._job = job
        self._loss_names = loss_names or {}
        self._score: float | None = None
        self._reporter = reporter or default_reporter()

    def validated(self, line: ValidationLine) -> None:
        """Show the score from now on."""
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
