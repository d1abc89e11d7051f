"""Train a detector from a pipeline.config and write it as a detector folder."""

import dataclasses
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.artifacts.model_run import LEFT_OUT, SKIPPED_BATCHES, TRAIN_REPORT, TrainReport
from detection_core.builders.datasets import with_steps
from detection_core.builders.detector import build_multi_scale_model, configured_model
from detection_core.builders.train_plan import TrainPlan, build_train_plan
from detection_core.config.check import check_classes_filled_in, check_training
from detection_core.config.label_map_file import load_label_map
from detection_core.config.model_fields import classes_field, fine_tune_checkpoint
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.label_map import LabelMap
from detection_core.detectors.base import Detector, count_parameters
from detection_core.errors import ConfigError
from detection_core.exporters.detector_folder import write_detector
from detection_core.loggers.open_loggers import check_loggers
from detection_core.progress import Reporter
from detection_core.tasks.fitting.fit import FitRequest, fit, fit_facts, weights_kind, written_weights
from detection_core.tasks.fitting.starting_files import starting_files
from detection_core.tasks.fitting.starting_weights import StartingWeights, fill_starting_weights
from detection_core.tasks.fitting.work_folder import (
    DEFAULT_RESUME,
    ResumeOptions,
    training_fingerprint,
    training_origin,
    work_folder,
    write_model_run,
)
from detection_core.training.distribution import choose_strategy, this_worker
from detection_core.training.kernels import avoid_slow_fusions
from detection_core.training.loop import TrainingResult
from detection_core.training.memory import keep_host_memory
from detection_core.training.precision import Precision, choose_precision, computing_in

_logger = logging.getLogger(__name__)


def train(
    config: CheckedConfig,
    *,
    model_dir: str,
    model_run_dir: str,
    work_dir: str,
    warm_start_dir: str = "",
    log_every: int = 20,
    progress: Reporter | None = None,
    resume: ResumeOptions = DEFAULT_RESUME,
) -> TrainReport:
    """Train as the config says; write the detector and the record of the run.

    A killed training resumes from its last checkpoint when called again with the same config, examples and
    starting weights. With several workers in TF_CONFIG, all call this with the same arguments and a shared
    `work_dir`. Each worker takes its part of every batch, and the chief writes.

    Args:
        config: its input readers are filled in. A missing number of classes is taken from the label map.
        model_dir: detector folder to write.
        model_run_dir: folder to write with the as-run config, last checkpoint, logs, history and report.
        work_dir: durable folder for unfinished training.
        warm_start_dir: detector folder to start from instead of the config's `fine_tune_checkpoint`.
        log_every: steps between reports.
        progress: progress display; by default it depends on whether standard error is a terminal.
        resume: how a stopped training is resumed.

    Raises:
        ConfigError: if the config cannot be used.
        DataError: if the examples cannot be read.
        ModelError: if the loss is not finite, or starting weights or a checkpoint do not fit.
    """
    keep_host_memory()
    avoid_slow_fusions()
    worker = this_worker()
    strategy = choose_strategy(worker)
    check_training(config)
    config = with_steps(config)
    plan = build_train_plan(config, log_every=log_every, checkpoint_minutes=resume.checkpoint_minutes)
    _check(plan, strategy.num_replicas_in_sync)
    plan.reproducibility.set_up()
    label_map = load_label_map(plan.label_map_path)
    config = check_classes_filled_in(config, label_map.num_classes)
    weights_from = starting_files(warm_start_dir, fine_tune_checkpoint(config))
    fingerprint = training_fingerprint(config, weights=weights_from)
    with work_folder(work_dir, fingerprint, code_version=resume.code_version, worker=worker) as folder:
        request = _request(config, label_map, plan, folder, strategy)
        with strategy.scope():
            check_classes(request.model, label_map, classes_field(config))
            start = fill_starting_weights(request.model, config, warm_start_dir)
            result = fit(request, job="train", progress=progress)
            report = _report(request, result, start)
            with written_weights(plan, result):  # on every worker, because it reduces over replicas
                weights = [variable.numpy() for variable in request.model.variables]
        if worker.is_chief:
            _write_model(_trained_model(request, weights), config, label_map, model_dir, report)
            tables = start.tables() | LEFT_OUT.as_table(folder) | SKIPPED_BATCHES.as_table(folder)
            text = TRAIN_REPORT.format(report)
            write_model_run(config, text, result.checkpoint, folder, model_run_dir, tables=tables)
    return report


def _request(
    config: CheckedConfig, label_map: LabelMap, plan: TrainPlan, folder: str, strategy: tf.distribute.Strategy
) -> FitRequest:
    """Build the training request, with the number format of the config or the device."""
    with strategy.scope():
        precision = choose_precision(plan.precision)
    plan = plan.computing_in(precision)
    # A float32 model to validate for a replicated or low-bit one, built outside the scope.
    same = strategy.num_replicas_in_sync == 1 and plan.options.precision is Precision.FLOAT32
    plain = None if same or plan.validation is None else configured_model(config).build()
    with strategy.scope(), computing_in(precision):
        model = configured_model(config).build()
        scales = build_multi_scale_model(config, model)
    request = FitRequest(
        model=model,
        config=config,
        label_map=label_map,
        plan=plan,
        work_folder=folder,
        plain_model=plain,
        scales=scales,
    )

    def write_weights(directory: str) -> None:
        weights = [variable.numpy() for variable in model.variables]
        if this_worker().is_chief:
            # Another thread is outside the scope of the replicas' strategy, in which training runs.
            with ThreadPoolExecutor(1) as outside:
                trained = outside.submit(_trained_model, request, weights).result()
                outside.submit(write_detector, trained, config, label_map, directory).result()

    return dataclasses.replace(request, write_weights=write_weights)


def _check(plan: TrainPlan, replicas: int) -> None:
    check_loggers(plan.loggers)
    if plan.keeps_average and not plan.writes_average:
        _logger.warning(
            "a moving average of the weights is kept (train_config.optimizer.use_moving_average), but the"
            " detector is written with the last ones, as eval_config.use_moving_averages is false"
        )
    if plan.batch_size % replicas:
        raise ConfigError(
            f"expected a multiple of the {replicas} devices that share a batch, found {plan.batch_size}.",
            where="train_config.batch_size",
        )


def check_classes(model: Detector, label_map: LabelMap, where: str) -> None:
    """Refuse a label map with another number of classes than the model; ConfigError names both."""
    if model.num_classes != label_map.num_classes:
        raise ConfigError(
            f"expected the label map's {label_map.num_classes:,} classes, found {model.num_classes:,};"
            " correct it, or leave it out, and it follows the label map",
            where=where,
        )


def _report(request: FitRequest, result: TrainingResult, start: StartingWeights) -> TrainReport:
    plan = request.plan
    return TrainReport(
        **fit_facts(result, steps=plan.options.num_steps, work_folder=request.work_folder),
        parameters=count_parameters(request.model.trainable_variables),
        started_from=start.source,
        restored=start.counts(),
        weights=weights_kind(plan, result),
        left_out=result.left_out,
        precision=plan.options.precision.dtype,
        class_weights=result.class_weights,
    )


def _trained_model(request: FitRequest, weights: list[np.ndarray]) -> Detector:
    """Return a float32 model of plain variables for saving; call it outside the strategy's scope."""
    model, precision = request.model, request.plan.options.precision
    copies = isinstance(model.variables[0], tf.distribute.DistributedValues)
    if copies or precision is not Precision.FLOAT32:
        model = request.plain_model or configured_model(request.config).build()
    for variable, value in zip(model.variables, weights, strict=True):
        variable.assign(value)
    return model


def _write_model(
    model: Detector, config: CheckedConfig, label_map: LabelMap, model_dir: str, report: TrainReport
) -> None:
    summary: dict[str, Any] = {
        "steps": report.steps,
        "started_from": report.started_from,
        "weights": report.weights,
        "trained_as": report.fingerprint,
        **training_origin(config),
    }
    write_detector(model, config, label_map, model_dir, extra=summary)
