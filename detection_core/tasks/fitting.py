"""The training loop around a config: its examples, optimizer, logs and progress."""

from __future__ import annotations

import tensorflow as tf

from detection_core import files
from detection_core.builders.inputs import Share, build_train_dataset, naming_bad_train_records
from detection_core.builders.optimizer import build_optimizer
from detection_core.data.label_map import LabelMap
from detection_core.progress import Reporter
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.training.actions import HistoryFile, ProgressLines, TensorBoardScalars, TrainingAction
from detection_core.training.distribution import current_worker
from detection_core.training.loop import TrainingResult, run_training
from detection_core.training.options import TrainOptions
from detection_core.training.step import TrainableModel

SEED = 0
"""Seed of the order and augmentation of the training examples; the config has no field for it."""


def fit(
    model: TrainableModel,
    config: TrainEvalPipelineConfig,
    label_map: LabelMap,
    options: TrainOptions,
    work_folder: str,
    *,
    job: str,
    progress: Reporter | None = None,
    step: tf.Variable | None = None,
) -> TrainingResult:
    """Train a model on the config's examples with the config's optimizer.

    Call it inside the scope of the distribution strategy that the model was made in.

    Args:
        model: float or quantization-aware.
        config: with its input readers filled in.
        label_map: of the examples.
        options: how long, how often.
        work_folder: gets `checkpoints/`, `logs/` and `history.jsonl`; a training found there is continued.
        job: first word of the progress lines.
        progress: what shows progress; chosen by where standard error goes when not given.
        step: global step from `new_step`, where the model itself depends on it.

    Raises:
        ConfigError, DataError, ModelError: as `run_training` and the builders raise them.
    """
    worker = current_worker()
    # A worker's dataset comes in batches for one replica, see `distribution.distributed`.
    replicas = tf.distribute.get_strategy().num_replicas_in_sync if worker.count > 1 else 1
    with naming_bad_train_records(config, label_map=label_map):
        return run_training(
            model,
            lambda start: build_train_dataset(
                config,
                label_map=label_map,
                batch_size=config.train_config.batch_size,
                seed=SEED,
                start_step=start,
                share=Share(worker=worker.index, workers=worker.count, replicas=replicas),
            ),
            build_optimizer(config.train_config.optimizer),
            options,
            work_folder,
            actions=_actions(work_folder, job, progress) if worker.is_chief else [],
            step=step,
        )


def _actions(work_folder: str, job: str, progress: Reporter | None) -> list[TrainingAction]:
    return [
        HistoryFile(files.join(work_folder, "history.jsonl")),
        TensorBoardScalars(files.join(work_folder, "logs", "train")),
        ProgressLines(job, progress),
    ]
