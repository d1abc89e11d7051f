"""Validation during training: its schedule, the best weights, and its images."""

import dataclasses
import logging
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.artifacts.model_run import VALIDATIONS, ValidationLine
from detection_core.artifacts.pictures import FOLDER, PICTURES, SIDE_BY_SIDE, PictureEntry
from detection_core.loggers.base import encode_jpeg
from detection_core.storage import files
from detection_core.training.actions import TrainingAction
from detection_core.training.checkpoints import TrainingCheckpoints
from detection_core.training.distribution import current_worker, on_any_worker

_logger = logging.getLogger(__name__)

BEST = "best"
"""Subfolder of an unfinished training for the best weights."""

Measure = Callable[[], Mapping[str, float | None]]
"""Measures the model's current weights; metric -> value, None where undefined.

Every worker calls it, as reading a mirrored weight is a reduction; only the chief's values are used.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationOptions:
    """When a model is validated during training, and with which consequences.

    Attributes:
        every_steps: updates between two validations; 0: by time alone. There is always one at the end.
        every_minutes: time between two; 0: by steps alone.
        objective: metric -> weight in the score.
        keep_best: number of best weights to keep.
        patience: validations without a better score after which training stops; 0: no early stopping.
        min_gain: minimum gain over the best score that counts as better.
        averaged: whether the moving average of the weights, if any, is measured and kept.
    """

    every_steps: int
    every_minutes: float = 0.0
    objective: Mapping[str, float]
    keep_best: int = 1
    patience: int = 0
    min_gain: float = 0.0
    averaged: bool = False

    def score(self, metrics: Mapping[str, float | None]) -> float | None:
        """Return the weighted sum of metrics; None where one is undefined, which is worse than any score."""
        values = [(metrics.get(name), weight) for name, weight in self.objective.items() if weight]
        known = [value * weight for value, weight in values if value is not None and math.isfinite(value)]
        return sum(known) if len(known) == len(values) else None

    def measured(self, measure: Measure, step: int) -> ValidationLine:
        """Measure and score the model's current weights."""
        began = time.monotonic()
        metrics = dict(measure())
        return ValidationLine(
            step=step,
            score=self.score(metrics),
            metrics=metrics,
            seconds=round(time.monotonic() - began, 3),
            time=round(time.time(), 3),
        )


def best_lines(lines: Sequence[ValidationLine], count: int) -> list[ValidationLine]:
    """Return the validations with the highest scores, the best first; of equal ones the earlier."""
    scored = [line for line in lines if line.score is not None]
    return sorted(scored, key=lambda line: (-(line.score or 0.0), line.step))[:count]


def waited(lines: Sequence[ValidationLine], min_gain: float) -> int:
    """Return the number of validations since the last improvement."""
    best, since = -math.inf, 0
    for line in lines:
        if line.score is not None and line.score > best + (min_gain if math.isfinite(best) else 0.0):
            best, since = line.score, 0
        else:
            since += 1
    return since


class Validation:
    """Validates a model during training, records the results, and keeps the best weights.

    Results are stored in `validation.jsonl` in the work folder. Everything else follows from them, so that a
    resumed training makes the same decisions. Call it inside the scope of the model's strategy, on all
    workers.
    """

    def __init__(
        self,
        options: ValidationOptions,
        measure: Measure,
        model: Any,
        work_folder: str,
        *,
        job: str = "train",
    ) -> None:
        """Prepare the folder of the best weights, in the unfinished training's.

        `measure` returns the metrics of the model's current weights.
        """
        self.options = options
        self._measure = measure
        self._folder = work_folder
        self._job = job
        self._worker = current_worker()
        self._lines: list[ValidationLine] = []
        self._checked_at = time.monotonic()
        # This class decides by score which ones to keep.
        self._best = TrainingCheckpoints({"model": model}, files.join(work_folder, BEST), keep=1 << 30)

    def start(self, step: int) -> None:
        """Load results up to the starting step, later ones come again; ContractError if unreadable."""
        self._lines = [line for line in VALIDATIONS.read(self._folder) if line.step <= step]
        self._checked_at = time.monotonic()
        if self._worker.is_chief:
            self._write()
            self._forget(lambda kept: kept > step)

    @property
    def lines(self) -> tuple[ValidationLine, ...]:
        """The results, in the order of the steps."""
        return tuple(self._lines)

    @property
    def best(self) -> ValidationLine | None:
        """The validation with the highest score; None if there is none."""
        return next(iter(best_lines(self._lines, 1)), None)

    def is_exhausted(self) -> bool:
        """Return whether patience is exhausted; all workers must call it."""
        o = self.options
        return bool(o.patience) and self._agreed(waited(self._lines, o.min_gain) >= o.patience)

    def steps_until_due(self, step: int) -> float:
        """Return the number of updates until the next validation by steps."""
        every = self.options.every_steps
        return every - step % every if every else math.inf

    def is_due(self, step: int) -> bool:
        """Return whether a validation is due by steps."""
        every = self.options.every_steps
        return bool(every) and step % every == 0 and not self.has(step)

    def is_late(self) -> bool:
        """Return whether one is due by time; workers have to agree on it."""
        minutes = self.options.every_minutes
        return bool(minutes) and time.monotonic() - self._checked_at >= 60 * minutes

    def has(self, step: int) -> bool:
        """Return whether a step was validated."""
        return any(line.step == step for line in self._lines)

    def run(self, step: int) -> ValidationLine:
        """Validate the model, and keep its weights if they are among the best."""
        line = self.options.measured(self._measure, step)
        self._lines.append(line)
        kept = [best.step for best in best_lines(self._lines, self.options.keep_best)]
        if self._agreed(step in kept):
            self._best.save(step)
        if self._worker.is_chief:
            self._write()
            self._forget(lambda saved: saved not in kept)
        self._checked_at = time.monotonic()
        self._log(line)
        return line

    def restore_best(self) -> ValidationLine | None:
        """Restore the weights of the highest score; return None, unchanged, where there are none.

        Where the best ones cannot be read, the next best are used, with a warning.
        """
        if self._worker.count > 1:
            on_any_worker(False)  # waits until the chief has written its lines
            self._lines = VALIDATIONS.read(self._folder)
        for line in best_lines(self._lines, self.options.keep_best):
            if line.step in self._best.steps() and self._best.restore(line.step):
                return line
        return None

    def _agreed(self, of_chief: bool) -> bool:
        """Return the chief's value; only the chief has measured."""
        return on_any_worker(self._worker.is_chief and of_chief) if self._worker.count > 1 else of_chief

    def _write(self) -> None:
        VALIDATIONS.write(self._folder, self._lines)

    def _forget(self, dropped: Callable[[int], bool]) -> None:
        """Remove dropped weights, after the lines are written, so that none is missed."""
        for step in self._best.steps():
            if dropped(step):
                self._best.remove(step)

    def _log(self, line: ValidationLine) -> None:
        if not self._worker.is_chief:
            return
        best = self.best
        found = ", ".join(f"{name} {_text(line.metrics.get(name))}" for name in self.options.objective)
        beside = f"best {_text(best.score)} at step {best.step}" if best else "no score yet"
        _logger.info(
            "%s | validation at step %d: %s; %s; %.1f s",
            self._job,
            line.step,
            found,
            "the best so far" if best is line else beside,
            line.seconds,
        )


def _text(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


MOST_STEPS = 16
"""Maximum number of validations with images, spread over the training to bound a long one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationPicture:
    """An image of the sample, with detections beside ground truth.

    Attributes:
        number: of the image in the sample.
        source_id: id of the image.
        image: uint8 [H, W, 3].
    """

    number: int
    source_id: str
    image: np.ndarray


PictureSource = Callable[[], Sequence[ValidationPicture]]
"""Returns the images of the last validation."""


class PictureFiles(TrainingAction):
    """Writes `pictures/` with an index, whose captions name the step.

    Args:
        folder: of the unfinished training.
        pictures: returns those of the last validation.
    """

    def __init__(self, folder: str, pictures: PictureSource) -> None:
        self._folder, self._pictures = files.join(folder, FOLDER), pictures
        self._entries: list[PictureEntry] = []

    def start(self, step: int) -> None:
        """Drop what a resumed training will draw again."""
        self._entries = PICTURES.read_whole_lines(self._folder)
        self._keep(lambda drawn: drawn <= step)

    def validated(self, line: ValidationLine) -> None:
        """Write the images of a validation."""
        drawn = []
        for picture in self._pictures():
            name = f"step_{line.step:09d}_{picture.number:03d}.jpg"
            files.write_bytes(files.join(self._folder, name), encode_jpeg(picture.image))
            caption = f"step {line.step:,}"
            drawn.append(
                PictureEntry(kind=SIDE_BY_SIDE, source_id=picture.source_id, caption=caption, file=name)
            )
        if drawn:
            self._entries = [e for e in self._entries if step_of(e.file) != line.step] + drawn
            # Drop the steps that leave the smallest gaps; the first and the last stay.
            steps = sorted({step_of(entry.file) for entry in self._entries})
            while len(steps) > MOST_STEPS:
                del steps[min(range(1, len(steps) - 1), key=lambda i: steps[i + 1] - steps[i - 1])]
            self._keep(lambda step: step in steps)

    def _keep(self, stays: Callable[[int], bool]) -> None:
        """Write the index before files are removed, so that it never names a missing file."""
        gone = [entry for entry in self._entries if not stays(step_of(entry.file))]
        self._entries = [entry for entry in self._entries if stays(step_of(entry.file))]
        if self._entries or gone:
            PICTURES.write(self._folder, self._entries)
        for entry in gone:
            files.remove_tree(files.join(self._folder, entry.file))


def step_of(file: str) -> int:
    """Return the step of a file of these images; -1 for any other file."""
    number = re.match("step_([0-9]{1,18})(_|$)", file)
    return int(number[1]) if number else -1
