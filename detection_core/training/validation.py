"""Validation while training: when it is due, what it found, which weights are kept, and when to stop."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detection_core.artifacts.model_run import VALIDATIONS, ValidationLine
from detection_core.storage import files
from detection_core.training.checkpoints import TrainingCheckpoints
from detection_core.training.distribution import current_worker, on_any_worker

_logger = logging.getLogger(__name__)

BEST = "best"
"""Folder of the best weights, below that of an unfinished training."""

Measure = Callable[[], Mapping[str, float | None]]
"""Measures the weights that the model has now; metric to value, None where nothing can be said.

Every worker calls it, as reading the copies of a weight is a reduction; only the chief's values are used.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationOptions:
    """When a model is measured while it is trained, and what follows.

    Attributes:
        every_steps: updates between two validations; 0: by time alone. There is always one at the end.
        every_minutes: time between two; 0: by steps alone.
        objective: metric -> weight in the score.
        keep_best: how many of the best weights are kept.
        patience: validations without a better score after which training stops; 0: it does not stop early.
        min_gain: what a score must exceed the best one by to be better.
        averaged: the moving average of the weights is measured and kept, where there is one.
    """

    every_steps: int
    every_minutes: float = 0.0
    objective: Mapping[str, float]
    keep_best: int = 1
    patience: int = 0
    min_gain: float = 0.0
    averaged: bool = False

    def score(self, metrics: Mapping[str, float | None]) -> float | None:
        """Weigh metrics; None where one that counts has no value, which is worse than any score."""
        values = [(metrics.get(name), weight) for name, weight in self.objective.items() if weight]
        known = [value * weight for value, weight in values if value is not None and math.isfinite(value)]
        return sum(known) if len(known) == len(values) else None

    def measured(self, measure: Measure, step: int) -> ValidationLine:
        """Measure the model's present weights, and score what is found."""
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
    """Return the validations of the highest scores, the best first; of equal ones the earlier."""
    scored = [line for line in lines if line.score is not None]
    return sorted(scored, key=lambda line: (-(line.score or 0.0), line.step))[:count]


def waited(lines: Sequence[ValidationLine], min_gain: float) -> int:
    """Return how many validations there were since the last one that was better than all before it."""
    best, since = -math.inf, 0
    for line in lines:
        if line.score is not None and line.score > best + (min_gain if math.isfinite(best) else 0.0):
            best, since = line.score, 0
        else:
            since += 1
    return since


class Validation:
    """Measures a model while it is trained, remembers what was found, and keeps the best weights.

    What was found stands in `validation.jsonl` in the work folder; everything else follows from it, so that
    a resumed training decides as an uninterrupted one. Call it inside the scope of the strategy that the
    model was made in; of several workers all take part.
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
        """Prepare.

        Args:
            options: when, and what follows.
            measure: gives the metrics of the model's present weights.
            model: whose weights are kept.
            work_folder: durable folder of the unfinished training.
            job: first word of the log's lines.
        """
        self.options = options
        self._measure = measure
        self._folder = work_folder
        self._job = job
        self._worker = current_worker()
        self._lines: list[ValidationLine] = []
        self._checked_at = time.monotonic()
        # Which ones stay is decided here, by their scores.
        self._best = TrainingCheckpoints({"model": model}, files.join(work_folder, BEST), keep=1 << 30)

    def start(self, step: int) -> None:
        """Load results up to the step that training begins at; later steps are validated again.

        Raises:
            ContractError: for a line that cannot be read, as the file is written again.
        """
        found = VALIDATIONS.read(self._folder)
        self._lines = [line for line in found if line.step <= step]
        self._checked_at = time.monotonic()
        if self._worker.is_chief:
            self._write()
            self._forget(lambda kept: kept > step)

    @property
    def lines(self) -> tuple[ValidationLine, ...]:
        """What was found, in the order of the steps."""
        return tuple(self._lines)

    @property
    def best(self) -> ValidationLine | None:
        """The validation of the highest score; None where there is none."""
        return next(iter(best_lines(self._lines, 1)), None)

    def is_exhausted(self) -> bool:
        """Tell whether training has gained nothing for as long as it may; all workers have to ask."""
        o = self.options
        return bool(o.patience) and self._agreed(waited(self._lines, o.min_gain) >= o.patience)

    def steps_until_due(self, step: int) -> float:
        """Return how many updates may pass before the next validation that goes by steps."""
        every = self.options.every_steps
        return every - step % every if every else math.inf

    def is_due(self, step: int) -> bool:
        """Tell whether a validation is due by steps."""
        every = self.options.every_steps
        return bool(every) and step % every == 0 and not self.has(step)

    def is_late(self) -> bool:
        """Tell whether one is due by time; workers have to agree on it."""
        minutes = self.options.every_minutes
        return bool(minutes) and time.monotonic() - self._checked_at >= 60 * minutes

    def has(self, step: int) -> bool:
        """Tell whether a step was validated."""
        return any(line.step == step for line in self._lines)

    def run(self, step: int) -> ValidationLine:
        """Measure the model, whose weights are those to compare, and keep them if they are of the best."""
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
        """Give the model the weights of the highest score; None, and nothing done, where there are none.

        Where the best ones cannot be read, the next best are taken, with a warning.
        """
        if self._worker.count > 1:
            on_any_worker(False)  # the chief, which alone has measured, has written its lines before this
            self._lines = VALIDATIONS.read(self._folder)
        for line in best_lines(self._lines, self.options.keep_best):
            if line.step in self._best.steps() and self._best.restore(line.step):
                return line
        return None

    def _agreed(self, of_chief: bool) -> bool:
        """Return what the chief says, which alone has measured."""
        return on_any_worker(self._worker.is_chief and of_chief) if self._worker.count > 1 else of_chief

    def _write(self) -> None:
        VALIDATIONS.write(self._folder, self._lines)

    def _forget(self, dropped: Callable[[int], bool]) -> None:
        """Remove weights that are not kept any more; after the lines are written, so that none is missed."""
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
