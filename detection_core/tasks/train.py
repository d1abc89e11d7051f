"""Train a detector from a pipeline.config and write it as a detector folder."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import numpy as np

from detection_core import detector_layout
from detection_core.builders.model import build_detection_model
from detection_core.config.check import check_pipeline_config
from detection_core.config.label_map import load_label_map
from detection_core.data.label_map import LabelMap
from detection_core.errors import ConfigError
from detection_core.export.detector_folder import load_detector, write_detector
from detection_core.models.base import TOTAL_LOSS, DetectionModel
from detection_core.progress import Reporter
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.tasks.fitting import fit
from detection_core.tasks.model_run import write_model_run
from detection_core.tasks.train_options import build_train_options, fine_tune_type
from detection_core.tasks.work_folder import training_fingerprint, work_folder
from detection_core.training.distribution import choose_strategy
from detection_core.training.loop import TrainingResult
from detection_core.training.restore import restore_fine_tune_checkpoint
from detection_core.training.warm_start import copy_matching_weights

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainReport:
    """How a training went.

    Attributes:
        steps: updates in all.
        start_step: updates that a resumed checkpoint already had.
        seconds: time in the training loop of this process.
        steps_per_second: speed at the end; 0 when nothing was left to do.
        loss: total loss of the last update; NaN when nothing was left to do.
        losses: its parts.
        learning_rate: rate of the last update.
        parameters: trainable parameters of the model.
        started_from: `random weights`, or the detector or checkpoint that gave the first weights.
        weights: which weights were written, `last` or `moving average`.
        fingerprint: name of the folder of unfinished work.
    """

    steps: int
    start_step: int
    seconds: float
    steps_per_second: float
    loss: float
    losses: dict[str, float]
    learning_rate: float
    parameters: int
    started_from: str
    weights: str
    fingerprint: str


def train(
    config: TrainEvalPipelineConfig,
    *,
    model_dir: str,
    model_run_dir: str,
    work_dir: str,
    warm_start_dir: str = "",
    log_every: int = 20,
    progress: Reporter | None = None,
    code_version: str = "",
) -> TrainReport:
    """Train as the config says and write the detector and the record of the run.

    A killed training continues from its last checkpoint when it is called again with the same config,
    examples and starting weights.

    Args:
        config: with its input readers filled in.
        model_dir: detector folder to write.
        model_run_dir: folder to write with the as-run config, last checkpoint, logs, history and report.
        work_dir: durable folder for unfinished training.
        warm_start_dir: detector folder whose weights to start from; they take the place of the config's
            `fine_tune_checkpoint`.
        log_every: steps between reports.
        progress: what shows progress; chosen by where standard error goes when not given.
        code_version: names the code, where a change of it shall not continue an old checkpoint.

    Raises:
        ConfigError: when the config cannot be followed.
        DataError: when the examples cannot be read.
        ModelError: when the loss is not finite, or starting weights or a checkpoint do not fit.
    """
    check_pipeline_config(config)
    options = build_train_options(config.train_config, log_every=log_every)
    label_map = load_label_map(config.train_input_reader.label_map_path)
    fingerprint = training_fingerprint(
        config, inputs=_starting_files(config, warm_start_dir), version=code_version
    )
    strategy = choose_strategy()
    with work_folder(work_dir, fingerprint) as folder, strategy.scope():
        _check(config, strategy.num_replicas_in_sync)
        model = build_detection_model(config.model)
        _check_classes(model, label_map)
        started_from = _start(model, config, warm_start_dir)
        result = fit(model, config, label_map, options, folder, job="train", progress=progress)
        report = _report(config, model, result, started_from=started_from, fingerprint=fingerprint)
        _write_model(config, model, label_map, result, model_dir, report)
        write_model_run(config, report, result.checkpoint, folder, model_run_dir)
    return report


def _starting_files(config: TrainEvalPipelineConfig, warm_start_dir: str) -> list[str]:
    """Patterns of the files that hold the first weights."""
    if warm_start_dir:
        return [detector_layout.extra_file(warm_start_dir, detector_layout.CHECKPOINT) + ".*"]
    checkpoint = config.train_config.fine_tune_checkpoint
    return [checkpoint + ".*"] if checkpoint else []


def _check(config: TrainEvalPipelineConfig, replicas: int) -> None:
    optimizer = config.train_config.optimizer
    averaged = config.eval_config.use_moving_averages
    if averaged and not optimizer.use_moving_average:
        raise ConfigError(
            "expected train_config.optimizer.use_moving_average, as averaged weights are asked for, found"
            " false. Set both or neither.",
            where="eval_config.use_moving_averages",
        )
    if optimizer.use_moving_average and not averaged:
        _logger.warning(
            "a moving average of the weights is kept (train_config.optimizer.use_moving_average), but the"
            " detector is written with the last ones, as eval_config.use_moving_averages is false"
        )
    batch = config.train_config.batch_size
    if batch % replicas:
        raise ConfigError(
            f"expected a multiple of the {replicas} devices that share a batch, found {batch}.",
            where="train_config.batch_size",
        )


def _check_classes(model: DetectionModel, label_map: LabelMap) -> None:
    if model.num_classes != label_map.num_classes:
        raise ConfigError(
            f"expected the label map's {label_map.num_classes} classes, found {model.num_classes}. Set"
            " num_classes of the model to the number of classes in the data.",
            where="model.num_classes",
        )


def _start(model: DetectionModel, config: TrainEvalPipelineConfig, warm_start_dir: str) -> str:
    """Fill in the first weights and say where they came from."""
    checkpoint = config.train_config.fine_tune_checkpoint
    if warm_start_dir:
        if checkpoint:
            _logger.warning(
                "the warm start takes the place of train_config.fine_tune_checkpoint %s", checkpoint
            )
        source = load_detector(warm_start_dir).model
        copied = copy_matching_weights(source.network, model.network, where=warm_start_dir)
        return f"{copied} weights of {warm_start_dir}"
    if checkpoint:
        report = restore_fine_tune_checkpoint(model, checkpoint, fine_tune_type(config.train_config))
        _logger.info("%s", report.table())
        return checkpoint
    return "random weights"


def _report(
    config: TrainEvalPipelineConfig,
    model: DetectionModel,
    result: TrainingResult,
    *,
    started_from: str,
    fingerprint: str,
) -> TrainReport:
    last = result.last_report
    averaged = config.eval_config.use_moving_averages
    return TrainReport(
        steps=config.train_config.num_steps,
        start_step=result.start_step,
        seconds=round(result.seconds, 3),
        steps_per_second=round(last.steps_per_second, 4) if last else 0.0,
        loss=last.losses[TOTAL_LOSS] if last else float("nan"),
        losses=last.losses if last else {},
        learning_rate=last.learning_rate if last else float("nan"),
        parameters=int(sum(np.prod(v.shape) for v in model.network.trainable_variables)),
        started_from=started_from,
        weights="moving average" if averaged else "last",
        fingerprint=fingerprint,
    )


def _write_model(
    config: TrainEvalPipelineConfig,
    model: DetectionModel,
    label_map: LabelMap,
    result: TrainingResult,
    model_dir: str,
    report: TrainReport,
) -> None:
    facts: dict[str, Any] = {
        "steps": report.steps,
        "started_from": report.started_from,
        "weights": report.weights,
        "trained_as": report.fingerprint,
    }
    if config.eval_config.use_moving_averages and result.average is not None:
        with result.average.swapped_in():
            write_detector(model, config, label_map, model_dir, extra=facts)
    else:
        write_detector(model, config, label_map, model_dir, extra=facts)
