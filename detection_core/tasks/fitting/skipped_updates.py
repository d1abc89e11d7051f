"""Choose the number of parts of a batch; keep the batches of skipped updates, to train on each alone."""

import dataclasses
import io
import logging
import math
import shlex
from collections.abc import Callable, Sequence

import tensorflow as tf

from detection_core.artifacts.detector import LABEL_MAP, PIPELINE_CONFIG
from detection_core.artifacts.model_run import BATCH_PARTS, SKIPPED_BATCHES, BatchParts, LeftOut, SkippedBatch
from detection_core.builders.datasets import one_batch_config, training_records
from detection_core.config.load import write_as_run
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.label_map import LabelMap
from detection_core.data.record_format import write_record
from detection_core.data.records import image_name
from detection_core.storage import files
from detection_core.training.actions import TrainingAction
from detection_core.training.guard import SkippedUpdate
from detection_core.training.loop_options import TrainOptions
from detection_core.training.trial_updates import BatchTooLargeError, TrialUpdates, equal_parts, more_parts

_logger = logging.getLogger(__name__)

SKIPPED = "skipped"
"""Folder of the batches, inside that of an unfinished training."""

EXAMPLES, DETECTOR = "examples", "model"
"""Subfolders of a batch: its records in ExampleGen's layout, and the weights before the update."""

_KEPT = 20  # batches; for later ones only the image names are kept
_SHARD = "Split-train/examples-00000-of-00001.tfrecord"


@dataclasses.dataclass(kw_only=True)
class SkippedBatches(TrainingAction):
    """Writes the records of each skipped batch, with a config that trains on them alone.

    Attributes:
        config: of the training.
        label_map: of the examples.
        label_map_path: its file.
        work_folder: of the unfinished training.
        seed: of the training.
        left_out: records that the training leaves out.
        write_weights: writes the present weights to a folder, where training stops; None: they are not
            written.
    """

    config: CheckedConfig
    label_map: LabelMap
    label_map_path: str
    work_folder: str
    seed: int
    left_out: Sequence[LeftOut] = ()
    write_weights: Callable[[str], None] | None = None
    _found: list[SkippedBatch] = dataclasses.field(default_factory=list, init=False)

    def start(self, step: int) -> None:
        """Remove the updates after the starting step; they will be repeated."""
        self._found = [b for b in SKIPPED_BATCHES.read(self.work_folder) if b.step < step]
        self._write()

    def skipped(self, update: SkippedUpdate) -> str:
        """Write the batch of an update; return its images and its folder as text."""
        records = training_records(
            self.config, label_map=self.label_map, seed=self.seed, step=update.step, left_out=self.left_out
        )
        images = [image_name(record) for record in records]
        keeps = update.is_last or len(self._found) < _KEPT
        folder = self._keep(update, records) if keeps else ""
        self._found.append(
            SkippedBatch(
                step=update.step,
                losses={n: v if math.isfinite(v) else None for n, v in update.losses.items()},
                learning_rate=update.learning_rate,
                images=images,
                folder=folder,
            )
        )
        self._write()
        shown = ", ".join(map(repr, images[:8])) + (", ..." if len(images) > 8 else "")
        note = f" Its batch is of the images {shown}"
        note += f"; `{self._command(folder, update)}` trains on them alone." if folder else "."
        if not update.is_last:
            _logger.warning(
                "update %d is left out: its loss or a gradient is not finite.%s", update.step, note
            )
        return note

    def _keep(self, update: SkippedUpdate, records: Sequence[bytes]) -> str:
        """Write a batch; return its folder, relative to the work folder."""
        name = files.join(SKIPPED, f"step-{update.step}")
        with files.atomic_dir(files.join(self.work_folder, name)) as folder:
            content = io.BytesIO()
            for record in records:
                write_record(content, record)
            examples = files.join(folder, EXAMPLES)
            files.write_bytes(files.join(examples, _SHARD), content.getvalue())
            files.copy_file(self.label_map_path, files.join(examples, LABEL_MAP))
            write_as_run(one_batch_config(self.config), files.join(folder, PIPELINE_CONFIG))
            if update.is_last and self.write_weights:
                self.write_weights(files.join(folder, DETECTOR))
        return name

    def _command(self, name: str, update: SkippedUpdate) -> str:
        folder = files.join(self.work_folder, name)
        is_kept = update.is_last and self.write_weights
        start = ["--warm-start", files.join(folder, DETECTOR)] if is_kept else []
        config, examples = files.join(folder, PIPELINE_CONFIG), files.join(folder, EXAMPLES)
        words = ["detflow", "train", "--config", config, "--examples", examples, *start, "--output", "OUTPUT"]
        return shlex.join(words)

    def _write(self) -> None:
        if self._found or files.exists(SKIPPED_BATCHES.path(self.work_folder)):
            SKIPPED_BATCHES.write(self.work_folder, self._found)


@dataclasses.dataclass(frozen=True)
class WeightsOfWorker(TrainingAction):
    """Takes part in writing weights where training stops: reading one is a reduction over all workers."""

    write_weights: Callable[[str], None]

    def skipped(self, update: SkippedUpdate) -> str:
        """Read the weights; the chief writes them."""
        if update.is_last:
            self.write_weights("")
        return ""


_FIELD = "train_config.gradient_accumulation_steps"


def settled_parts(options: TrainOptions, folder: str) -> int:
    """Return the number of parts with which a training starts or resumes, as its folder stores it."""
    if options.gradient_accumulation_steps:
        return options.gradient_accumulation_steps
    if not files.exists(BATCH_PARTS.path(folder)):
        return 1
    images = options.batch_size // tf.distribute.get_strategy().num_replicas_in_sync
    parts = equal_parts(BATCH_PARTS.read(folder).gradient_accumulation_steps, images)
    _logger.info("an update's %d images are computed in %d parts, as was found before", images, parts)
    return parts


def set_more_parts(error: BatchTooLargeError, options: TrainOptions, parts: int, folder: str) -> None:
    """Store the number of parts for the next start of several workers, if the config leaves it open.

    Raises:
        BatchTooLargeError: `error`, if the config fixes the number, or one image does not fit.
    """
    images = options.batch_size // tf.distribute.get_strategy().num_replicas_in_sync
    found = next(more_parts(parts, images), 0)
    if options.gradient_accumulation_steps or not found:
        raise error
    _logger.warning("%s; %d parts are tried next", error, found)
    BATCH_PARTS.write(folder, BatchParts(gradient_accumulation_steps=found, reason=error.message))


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
            f"{error.message}. Updates in {found} parts went through: set {_FIELD}: {found}, which does"
            f" not change the update, or batch_size: {size // found}; with {_FIELD}: 0 training finds the"
            " number by itself",
            where=error.where,
        )
    _logger.warning(
        "an update's %d images are computed in %d parts, which fit into memory; nothing else changes",
        size,
        found,
    )
    BATCH_PARTS.write(folder, BatchParts(gradient_accumulation_steps=found, reason=error.message))
    return found
