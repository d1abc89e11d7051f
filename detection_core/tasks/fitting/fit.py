"""Run the training loop of a config, with its examples, optimizer, logs and progress."""

import contextlib
import dataclasses
import functools
import gc
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.artifacts.model_run import HISTORY, LEFT_OUT, LOGS, VALIDATIONS, FitReport, LeftOut
from detection_core.builders import datasets
from detection_core.builders.detector import configured_model
from detection_core.builders.train_plan import TrainPlan, build_optimization
from detection_core.config.load import write_as_run
from detection_core.config.paths.overrides import field_texts
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.label_map import LabelMap
from detection_core.data.records import naming_bad_records
from detection_core.detectors.base import TOTAL_LOSS, Detector
from detection_core.errors import DataError
from detection_core.loggers.base import TRAIN
from detection_core.loggers.open_loggers import open_loggers
from detection_core.loggers.tensorboard import TensorBoardLogger
from detection_core.optimizers.optimization import with_average
from detection_core.progress import Reporter
from detection_core.storage import files
from detection_core.tasks.fitting.detector_measure import DetectorMeasure
from detection_core.tasks.fitting.skipped_updates import (
    SkippedBatches,
    WeightsOfWorker,
    fitting_parts,
    set_more_parts,
    settled_parts,
)
from detection_core.tasks.fitting.work_folder import code_versions
from detection_core.training.actions import (
    HistoryFile,
    LoggedTraining,
    ProfilerTrace,
    ProgressLines,
    TrainingAction,
    reported_at,
)
from detection_core.training.distribution import current_worker, end_for_restart
from detection_core.training.loop import TrainingResult, run_training
from detection_core.training.memory import peak_device_memory, peak_host_memory
from detection_core.training.multi_scale import MultiScaleModel
from detection_core.training.trial_updates import BatchTooLargeError, TrialUpdates
from detection_core.training.validation import PictureFiles, Validation

_logger = logging.getLogger(__name__)
_NAMED = 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class FitRequest:
    """A training to run.

    Attributes:
        model: float or quantization-aware.
        config: its input readers are filled in.
        label_map: of the examples.
        plan: number of steps and intervals from the config.
        work_folder: gets the config, `checkpoints/`, `logs/` and `history.jsonl`; a training found there is
            resumed.
        write_weights: writes the model's present weights as a detector, see `SkippedBatches`; every worker
            calls it, and the chief writes. None if impossible.
        plain_model: float32 model of plain variables to validate instead. Needed if `model` has replicas on
            several devices, or computes with fewer bits.
        step: global step from `new_step`, if the model itself depends on it.
        scales: losses of the model for other image sizes; None: only its own size.
    """

    model: Detector
    config: CheckedConfig
    label_map: LabelMap
    plan: TrainPlan
    work_folder: str
    write_weights: Callable[[str], None] | None = None
    plain_model: Detector | None = None
    step: tf.Variable | None = None
    scales: MultiScaleModel | None = None


def fit(request: FitRequest, *, job: str, progress: Reporter | None = None) -> TrainingResult:
    """Train a model on the config's examples with the config's optimizer.

    Call it inside the scope of the model's distribution strategy. If records do not decode, all records are
    checked once. Up to `plan.options.skip_limit` of them are logged, listed in the work folder and left out;
    training resumes from its last checkpoint. If a batch does not fit in memory and the config leaves the
    number of parts open, training resumes with more parts. One of several workers ends the process to resume.

    Args:
        request: what to train.
        job: first word of the progress lines.
        progress: progress display; by default it depends on whether standard error is a terminal.

    Raises:
        ConfigError, DataError, ModelError: as `run_training` and the builders raise them.
        SystemExit: with several workers, when all have to be started again.
    """
    worker, left_out = current_worker(), LEFT_OUT.read(request.work_folder)
    if worker.is_chief:
        write_as_run(request.config, files.join(request.work_folder, PIPELINE_CONFIG))
    # Other workers wait in a reduction for one that failed, which cannot go on without them.
    reset = _resetting(request) if worker.count == 1 else None
    parts, result = settled_parts(request.plan.options, request.work_folder), None
    while result is None:
        try:
            result = _train(request, job, progress, left_out, parts)
        except DataError as error:
            if left_out:
                raise
            left_out = _leave_out(request, error)
            LEFT_OUT.write(request.work_folder, left_out)
            if reset is None:
                end_for_restart("the listed records are left out from now on")
            reset()
        except BatchTooLargeError as error:
            if reset is None:
                set_more_parts(error, request.plan.options, parts, request.work_folder)
                end_for_restart("batches are computed in more parts from now on")
            parts = _fitting_parts(request, error, left_out, parts, reset)
    last = result.last_report or reported_at(HISTORY.path(request.work_folder), result.step)
    plan = request.plan.validation
    best = result.validation.restore_best() if plan and plan.writes_best and result.validation else None
    return dataclasses.replace(
        result, left_out=len(left_out), last_report=last, restored=best, gradient_accumulation_steps=parts
    )


def _resetting(request: FitRequest) -> Callable[[], None]:
    """Return a function that resets the model to its present weights, for another attempt."""
    variables = list(request.model.variables)
    first_weights = [variable.numpy() for variable in variables]

    def reset() -> None:
        gc.collect()  # the optimizer and its slots are in reference cycles
        for variable, value in zip(variables, first_weights, strict=True):
            variable.assign(value)
        if request.step is not None:
            request.step.assign(0)

    return reset


def _fitting_parts(
    request: FitRequest,
    error: BatchTooLargeError,
    left_out: Sequence[LeftOut],
    parts: int,
    reset: Callable[[], None],
) -> int:
    """Return the number of parts for the next attempt after a batch did not fit in memory."""
    # The traceback keeps the failed training in memory.
    error.__traceback__ = error.__context__ = None
    reset()
    options = request.plan.options
    trial = TrialUpdates(
        model=request.model,
        make_dataset=_dataset_factory(request, left_out),
        optimization=functools.partial(build_optimization, request.config),
        options=options,
        step=request.step,
        reset=reset,
        losses=request.scales.largest if request.scales else None,
    )
    return fitting_parts(error, trial, parts, options.gradient_accumulation_steps, request.work_folder)


def written_weights(plan: TrainPlan, result: TrainingResult) -> contextlib.AbstractContextManager[None]:
    """Return a context in which the model has the weights to write.

    These are the best of all validations if `fit` restored them. Otherwise they are the averaged weights if
    configured, else the last ones.
    """
    return with_average(result.average, asked=result.restored is None and plan.writes_average)


def weights_kind(plan: TrainPlan, result: TrainingResult) -> str:
    """Name the weights that are written, for `TrainReport.weights`."""
    kind = "moving average" if plan.writes_average and result.average is not None else "last"
    if result.restored is None:
        return kind
    return "best" if kind == "last" else f"best {kind}"


def fit_facts(result: TrainingResult, *, steps: int, work_folder: str) -> dict[str, Any]:
    """Return the report's entries on the loop: the fields of `FitReport`, by name."""
    last = result.last_report
    best = result.validation.best if result.validation else None
    report = FitReport(
        steps=result.step,
        start_step=result.start_step,
        seconds=round(result.seconds, 3),
        steps_per_second=round(last.steps_per_second, 4) if last else 0.0,
        loss=last.losses[TOTAL_LOSS] if last else float("nan"),
        losses=last.losses if last else {},
        learning_rate=last.learning_rate if last else float("nan"),
        stopped_early=result.step < steps,
        best_step=best.step if best else 0,
        best_score=best.score if best else None,
        skipped_updates=result.skipped_updates,
        gradient_accumulation_steps=result.gradient_accumulation_steps,
        fingerprint=os.path.basename(work_folder),
        code_versions=code_versions(work_folder),
        peak_memory_bytes=peak_host_memory(),
        peak_device_memory_bytes=peak_device_memory(),
    )
    return dict(vars(report))


def _train(
    request: FitRequest, job: str, progress: Reporter | None, left_out: Sequence[LeftOut], parts: int
) -> TrainingResult:
    config, label_map = request.config, request.label_map
    plan, measure, validation = request.plan.validation, None, None
    if plan is not None:
        measure = DetectorMeasure(request.model, config, label_map, plan, plain_model=request.plain_model)
        validation = Validation(plan.options, measure, request.model, request.work_folder, job=job)
    actions: list[TrainingAction] = []
    if current_worker().is_chief:
        skipped = SkippedBatches(
            config=config,
            label_map=label_map,
            label_map_path=request.plan.label_map_path,
            work_folder=request.work_folder,
            seed=request.plan.reproducibility.seed,
            left_out=left_out,
            write_weights=request.write_weights,
        )
        actions = [*_actions(request, measure, job, progress), skipped]
    elif request.write_weights:
        actions = [WeightsOfWorker(request.write_weights)]
    class_weights = datasets.training_class_weights(config, label_map=label_map, left_out=left_out)
    reader = datasets.train_reader(config, label_map)
    with naming_bad_records(reader.paths, reader.decode):
        result = run_training(
            request.scales or request.model,
            _dataset_factory(request, left_out, tuple(class_weights.values())),
            build_optimization(config),
            dataclasses.replace(request.plan.options, gradient_accumulation_steps=parts),
            request.work_folder,
            actions=actions,
            step=request.step,
            validation=validation,
        )
    return dataclasses.replace(result, class_weights=class_weights)


def _dataset_factory(
    request: FitRequest, left_out: Sequence[LeftOut], class_weights: tuple[float, ...] = ()
) -> Callable[[int], tf.data.Dataset]:
    """Return a function that builds this worker's batches from a step on."""
    worker = current_worker()
    # A worker's dataset comes in batches for one replica, see `distribution.distributed`.
    replicas = tf.distribute.get_strategy().num_replicas_in_sync if worker.count > 1 else 1
    shard = datasets.WorkerShard(
        worker=worker.index, workers=worker.count, replicas=replicas, left_out=tuple(left_out)
    )
    return lambda start: datasets.build_train_dataset(
        request.config,
        label_map=request.label_map,
        batch_size=request.plan.batch_size,
        seed=request.plan.reproducibility.seed,
        start_step=start,
        shard=shard,
        class_weights=class_weights,
    )


def _leave_out(request: FitRequest, error: DataError) -> list[LeftOut]:
    """Return the records to leave out; raise DataError if none explains the error, or beyond the limit."""
    found, records = datasets.find_bad_train_records(request.config, label_map=request.label_map)
    if not found:
        raise error
    for record in found[:_NAMED]:
        _logger.warning(
            "training goes on without %s, record %d, image %r: %s",
            record.path,
            record.index,
            record.image,
            record.reason,
        )
    _logger.warning("%d of %d training records do not decode", len(found), records)
    limit = request.plan.options.skip_limit
    if len(found) > limit * records:
        raise DataError(
            f"expected at most {limit:.2%} of the training records that do not decode,"
            f" found {len(found)} of {records}; the first is the image {found[0].image!r}"
            f" ({found[0].reason}). Make the examples again with data.decode_images: all, which sets these"
            " images aside",
            where=f"{found[0].path}, record {found[0].index}",
        ) from error
    return found


def _actions(
    request: FitRequest, measure: DetectorMeasure | None, job: str, progress: Reporter | None
) -> list[TrainingAction]:
    loss_names = configured_model(request.config).family.loss_names
    folder, profile = request.work_folder, request.plan.profile
    loggers = [TensorBoardLogger(files.join(folder, LOGS)), *open_loggers(request.plan.loggers, folder)]
    artifacts = [files.join(folder, name) for name in (PIPELINE_CONFIG, HISTORY.name, VALIDATIONS.name)]
    pictures = measure.named_pictures if measure else None
    return [
        HistoryFile(HISTORY.path(folder)),
        LoggedTraining(loggers, field_texts(request.config), artifacts, pictures),
        *([ProfilerTrace(profile, files.join(folder, LOGS, TRAIN))] if profile else []),
        *([PictureFiles(folder, lambda: measure.pictures)] if measure else []),
        ProgressLines(job, progress, loss_names),
    ]
