"""Choose the number of parts of a batch: as configured, or as many as memory requires."""

from __future__ import annotations

import logging

import tensorflow as tf

from detection_core.artifacts.model_run import BATCH_PARTS, BatchParts
from detection_core.errors import ConfigError
from detection_core.storage import files
from detection_core.training.distribution import Worker
from detection_core.training.loop_options import TrainOptions
from detection_core.training.trial_updates import BatchTooLargeError, TrialUpdates, equal_parts

_logger = logging.getLogger(__name__)

_FIELD = "train_config.gradient_accumulation_steps"


def settled_parts(options: TrainOptions, folder: str, worker: Worker) -> int:
    """Return the number of parts with which a training starts or resumes.

    Args:
        options: of the training.
        folder: of the unfinished training; it stores an earlier result.
        worker: the rank of this process.

    Raises:
        ConfigError: if several workers would have to agree on a number.
    """
    if options.gradient_accumulation_steps:
        return options.gradient_accumulation_steps
    if worker.count > 1:
        raise ConfigError(
            f"expected 1 or more, as {worker.count} workers cannot find a number together, found 0, which"
            " leaves it to the memory; set it to a number",
            where=_FIELD,
        )
    path = BATCH_PARTS.path(folder)
    if not files.exists(path):
        return 1
    found = BATCH_PARTS.read(folder)
    images = options.batch_size // tf.distribute.get_strategy().num_replicas_in_sync
    parts = equal_parts(found.gradient_accumulation_steps, images)
    _logger.info("an update's %d images are computed in %d parts, as was found before", images, parts)
    return parts


def fitting_parts(error: BatchTooLargeError, trial: TrialUpdates, parts: int, asked: int, folder: str) -> int:
    """Find and store a number of parts that fits in memory, if the config leaves it open.

    Call it in the scope of the training's strategy.

    Args:
        error: the error that ended the training.
        trial: makes updates.
        parts: the number of parts that failed.
        asked: the configured number; 0: any.
        folder: of the unfinished training.

    Raises:
        BatchTooLargeError: if the config fixes a number, naming one that fits, or if none fits.
    """
    _logger.warning("%s; looking for what fits", error)
    found, size = trial.least_parts(parts), trial.options.batch_size
    if not found:
        raise BatchTooLargeError(
            f"{error.message}. Nor does it hold one image at a time: take a smaller model, smaller images, or"
            " more memory",
            where=error.where,
        )
    if asked:
        raise BatchTooLargeError(
            f"{error.message}. Updates in {found} parts went through: set {_FIELD}: {found}, which leaves the"
            f" update as it is, or batch_size: {size // found}; with {_FIELD}: 0 training finds the number"
            " by itself",
            where=error.where,
        )
    _logger.warning(
        "an update's %d images are computed in %d parts, which the memory holds; nothing else changes",
        size,
        found,
    )
    BATCH_PARTS.write(folder, BatchParts(gradient_accumulation_steps=found, reason=error.message))
    return found
