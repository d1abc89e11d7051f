"""The training loop: updates, reports and checkpoints, independent of models and data."""

import contextlib
import dataclasses
import functools
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from detection_core.artifacts.model_run import ValidationLine
from detection_core.errors import DataError
from detection_core.optimizers.optimization import MovingAverage, Optimization, with_average
from detection_core.progress import RateMeter
from detection_core.storage import files
from detection_core.training.actions import DataWait, TrainingAction
from detection_core.training.checkpoints import TrainingCheckpoints
from detection_core.training.distribution import current_worker, distributed, on_any_worker
from detection_core.training.guard import SKIPPED_UPDATES, StepOutputs
from detection_core.training.histograms import as_histograms
from detection_core.training.loop_options import StepReport, TrainOptions
from detection_core.training.memory import device_memory, host_memory
from detection_core.training.multi_scale import MultiScaleModel
from detection_core.training.precision import LOSS_SCALE
from detection_core.training.step import TrainableModel, TrainState, compile_steps
from detection_core.training.stop_signal import StopSignal
from detection_core.training.trial_updates import is_out_of_memory, too_large
from detection_core.training.validation import Validation

_logger = logging.getLogger(__name__)

CHECKPOINTS = "checkpoints"
"""Subfolder of the work folder for checkpoints of unfinished training."""

DatasetFactory = Callable[[int], tf.data.Dataset]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """The outcome of a training.

    Attributes:
        start_step: updates in the resumed checkpoint; 0 for a fresh start.
        last_report: the loop's last report; None when the checkpoint was already complete.
        seconds: time in the loop, this process only.
        checkpoint: path of the final checkpoint.
        average: moving average of the weights, if enabled.
        step: total updates; fewer than requested where training stopped early.
        validation: results of the validations, if there were any.
        restored: the validation whose weights the model has now; None: it has the last weights.
        left_out: training records skipped because they do not decode.
        skipped_updates: updates skipped because a value is not finite.
        gradient_accumulation_steps: number of parts in which each update's batch was computed.
        class_weights: weight of each class in the class loss, by name; empty: 1 for all.
    """

    start_step: int
    last_report: StepReport | None
    seconds: float
    checkpoint: str
    average: MovingAverage | None
    step: int
    validation: Validation | None = None
    restored: ValidationLine | None = None
    left_out: int = 0
    skipped_updates: int = 0
    gradient_accumulation_steps: int = 1
    class_weights: Mapping[str, float] = dataclasses.field(default_factory=dict)


def run_training(
    model: TrainableModel | MultiScaleModel,
    make_dataset: DatasetFactory,
    optimization: Optimization,
    options: TrainOptions,
    work_dir: str,
    *,
    actions: Sequence[TrainingAction] = (),
    step: tf.Variable | None = None,
    validation: Validation | None = None,
) -> TrainingResult:
    """Train a model up to `options.num_steps` updates, from the newest checkpoint in `work_dir` if any.

    Call it inside the scope of the distribution strategy of the model and the optimizer.

    Args:
        model: a `TrainableModel`; a `MultiScaleModel` trains at several sizes in turn.
        make_dataset: start step -> endless dataset of `Batch` from that step's batch on; each worker gets its
            share, see `distribution.distributed`.
        optimization: optimizer, learning rate, moving average.
        options: length, intervals and settings of the training.
        work_dir: durable folder; `checkpoints/` below it is read and written.
        actions: called with every report.
        step: global step from `new_step`, if the model depends on it.
        validation: validates the model during training, if given.

    Raises:
        ModelError: when losses or gradients are not finite, or a checkpoint is of another model.
        StorageError: when no checkpoint can be read, see `TrainingCheckpoints.restore_latest`.
        DataError: when the dataset ends before the training; BatchTooLargeError: when memory runs out.
        SystemExit, KeyboardInterrupt: after a checkpoint, when a stop signal came.
    """
    scales = model if isinstance(model, MultiScaleModel) else MultiScaleModel.of_one_size(model)
    state = TrainState(scales.model, optimization, options, step)
    checkpoints = _checkpoints(state, options, work_dir)
    start = checkpoints.restore_latest()
    state.guard.begin()
    began = time.monotonic()
    if validation is not None:
        validation.start(start)
    # Before the end of the first step there is nothing to save, but other workers would wait.
    alone = current_worker().count == 1
    with _following(actions, start), StopSignal(at_once=alone) as stop:
        loop = _Loop(state, options, checkpoints, actions, stop, validation, scales)
        last, end = loop.run(lambda: iter(distributed(make_dataset, start)), start)
    return TrainingResult(
        start_step=start,
        last_report=last,
        seconds=time.monotonic() - began,
        checkpoint=checkpoints.path(end),
        average=state.average,
        step=end,
        validation=validation,
        skipped_updates=state.guard.total,
    )


def _checkpoints(state: TrainState, options: TrainOptions, work_dir: str) -> TrainingCheckpoints:
    return TrainingCheckpoints(
        state.checkpointed(),
        files.join(work_dir, CHECKPOINTS),
        keep=options.checkpoints_to_keep,
        keep_every_n_hours=options.keep_checkpoint_every_n_hours,
        optional=(LOSS_SCALE, SKIPPED_UPDATES),  # missing after training in another precision
    )


@contextlib.contextmanager
def _following(actions: Sequence[TrainingAction], start: int) -> Iterator[None]:
    """Start the actions and close them in any case."""
    try:
        for action in actions:
            action.start(start)
        yield
    except BaseException as error:
        for action in actions:
            action.failed(error)
        raise
    finally:
        for action in actions:
            action.close()


@dataclasses.dataclass
class _Loop:
    state: TrainState
    options: TrainOptions
    checkpoints: TrainingCheckpoints
    actions: Sequence[TrainingAction]
    stop: StopSignal
    validation: Validation | None
    scales: MultiScaleModel

    def __post_init__(self) -> None:
        self._alone = current_worker().count == 1
        self._guard = self.state.guard
        self._wait = DataWait()
        # In deterministic mode, the clock that measures the wait is refused.
        draw = next if self.options.deterministic else self._wait.draw
        self._update = functools.cache(
            lambda losses: compile_steps(
                self.state.with_losses(losses), self.options, self._guard.watch, draw
            )
        )
        self._meter = RateMeter()
        self._saved_at = time.monotonic()

    def run(self, make_batches: Callable[[], Iterator[Any]], step: int) -> tuple[StepReport | None, int]:
        total, report = self.options.num_steps, None
        if step:
            self._catch_up(step)
        if step == total or self._is_exhausted(step):
            return report, step
        batches = make_batches()
        began = time.monotonic()
        _logger.info("training from step %d to %d; the first step compiles and takes longer", step, total)
        first = step
        while step < total:
            count = self._steps_until_due(step)
            outputs = self._next(batches, count, step)
            step += count
            if step - count == first:
                self.stop.at_once = False
                self._start_meters(step)
                _logger.info("the first step took %.1f s", time.monotonic() - began)
            self._tell(outputs, step)
            if step % self.options.log_every == 0 or step == total:
                report = self._report(outputs, step)
            stopping = self._is_stopping(step)
            validated = not stopping and self._validate(step)
            if stopping or validated or self._is_saving(step):
                self._check()
                self.checkpoints.save(step)
                self._saved_at = time.monotonic()
            if stopping or (step == total and self._is_stopping(step)):
                self.stop.leave()
            if validated and self._is_exhausted(step):
                break
        return report, step

    def _catch_up(self, step: int) -> None:
        """Validate the resumed step, if the stop signal came before its validation."""
        validation = self.validation
        if validation is None or validation.has(step):
            return
        if step == self.options.num_steps or validation.is_due(step):
            self._validate(step)

    def _tell(self, outputs: StepOutputs, step: int) -> None:
        """Pass a step's report and histograms to the actions."""
        every = self.options.histograms_every_steps
        histograms = as_histograms(outputs.histograms) if every and step % every == 0 else {}
        for action in self.actions:
            action.reached(step)
            if histograms:
                action.measured(histograms, step)

    def _check(self) -> None:
        """Pass skipped updates to the actions, and stop where there are too many."""
        for update in self._guard.found():
            self._guard.refuse(update, "".join([action.skipped(update) for action in self.actions]))

    def _validate(self, step: int) -> bool:
        """Validate the model if due; return whether it was.

        It comes before the step's checkpoint, so that a resumed training does not repeat it.
        """
        validation = self.validation
        if validation is None:
            return False
        last = step == self.options.num_steps
        if not (last or validation.is_due(step) or self._agreed(step, validation.is_late())):
            return False
        self._check()
        before, self.stop.at_once = self.stop.at_once, self._alone
        try:
            with with_average(self.state.average, asked=validation.options.averaged):
                line = validation.run(step)
        except (KeyboardInterrupt, SystemExit):
            self.checkpoints.save(step)  # a resumed training catches up on the validation
            raise
        finally:
            self.stop.at_once = before
        for action in self.actions:
            action.validated(line)
        self._start_meters(step)  # exclude the time of the validation
        return True

    def _start_meters(self, step: int) -> None:
        self._meter = RateMeter()
        self._meter.mark(step)
        self._wait.fraction()

    def _is_exhausted(self, step: int) -> bool:
        total, validation = self.options.num_steps, self.validation
        if step == total or validation is None or not validation.is_exhausted():
            return False
        _logger.info(
            "training stops at step %d of %d: no better score in %d validations",
            step,
            total,
            validation.options.patience,
        )
        return True

    def _is_stopping(self, step: int) -> bool:
        return self._agreed(step, bool(self.stop.received))

    def _is_saving(self, step: int) -> bool:
        """Whether a checkpoint is due, by steps or by time."""
        o = self.options
        if step % o.checkpoint_every == 0 or step == o.num_steps:
            return True
        late = o.checkpoint_minutes * 60 if o.checkpoint_minutes else math.inf
        return self._agreed(step, time.monotonic() - self._saved_at >= late)

    def _agreed(self, step: int, requested: bool) -> bool:
        """Whether any process requests it; workers agree at each report and in the last step."""
        if self._alone:
            return requested
        asked = step % self.options.log_every == 0 or step == self.options.num_steps
        return asked and on_any_worker(requested)

    def _steps_until_due(self, step: int) -> int:
        """Return the number of updates for one call, up to the next due action."""
        o = self.options
        due = min(o.log_every - step % o.log_every, o.checkpoint_every - step % o.checkpoint_every)
        validation = self.validation.steps_until_due(step) if self.validation else math.inf
        scale = self.scales.steps_until_next(step)
        if o.histograms_every_steps:
            due = min(due, o.histograms_every_steps - step % o.histograms_every_steps)
        actions = min((action.steps_until_due(step) for action in self.actions), default=math.inf)
        return int(min(o.steps_per_call, due, validation, scale, actions, o.num_steps - step))

    def _next(self, batches: Iterator[Any], count: int, step: int) -> StepOutputs:
        try:
            update = self._update(self.scales.losses(step))
            with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
                return update(batches, tf.constant(count))
        except (tf.errors.OutOfRangeError, StopIteration) as error:
            raise DataError(
                f"expected an endless dataset, but it ended near step {step} of {self.options.num_steps}."
                " Let the training input repeat (num_epochs 0).",
                where="training dataset",
            ) from error
        except (MemoryError, tf.errors.OpError) as error:
            if not is_out_of_memory(error):
                raise
            raise too_large(error, self.options) from None

    def _report(self, outputs: StepOutputs, step: int) -> StepReport:
        self._check()
        rate = self._meter.mark(step)
        report = StepReport(
            step=step,
            steps=self.options.num_steps,
            losses={name: float(value) for name, value in sorted(outputs.losses.items())},
            learning_rate=float(outputs.learning_rate),
            steps_per_second=rate,
            scalars={name: float(value) for name, value in outputs.scalars.items()},
            images_per_second=rate * self.options.batch_size,
            data_wait=self._wait.fraction(),
            memory_bytes=host_memory(),
            device_memory_bytes=device_memory(),
            skipped_updates=self._guard.total,
        )
        for action in self.actions:
            action.report(report)
        return report
