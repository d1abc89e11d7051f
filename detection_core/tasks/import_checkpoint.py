"""A detector from a checkpoint of the field as it is, without training."""

from __future__ import annotations

import logging

from detection_core.builders.configured_model import configured_model
from detection_core.config.check import check_pipeline_config
from detection_core.config.label_map_file import load_label_map
from detection_core.config.num_classes import classes_field, with_classes
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.errors import ModelError
from detection_core.exporters.detector_folder import write_detector
from detection_core.tasks.train import check_classes
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.checkpoint_names import FineTuneOptions
from detection_core.training.restore import (
    Outcome,
    RestoredVariable,
    RestoreReport,
    restore_fine_tune_checkpoint,
)

_logger = logging.getLogger(__name__)
_NAMED_IN_ERROR = 5


def import_checkpoint(
    config: PipelineConfig, checkpoint: str, *, label_map: str, model_dir: str
) -> RestoreReport:
    """Write a detector folder with the weights of a detector's checkpoint.

    Args:
        config: of the model that the checkpoint was trained as; of its training nothing counts.
        checkpoint: prefix of the checkpoint's files, or their folder; object-based (TensorFlow 2) or
            name-based (TensorFlow 1).
        label_map: path of the classes, in text format.
        model_dir: detector folder to write.

    Returns:
        What came of each variable: all were restored.

    Raises:
        ConfigError: when the config cannot be followed or the classes are not the label map's.
        ModelError: when the checkpoint cannot be read, or lacks a variable of the detector.
    """
    check_pipeline_config(config)
    labels = load_label_map(label_map)
    config = with_classes(config, labels.num_classes)
    configured = configured_model(config)
    model = configured.build()
    check_classes(model, labels, classes_field(config))
    file = CheckpointFile(checkpoint)
    named = not file.is_object_based
    options = FineTuneOptions(
        kind="detection" if named else "full",
        named=named,
        extractor=configured.extractor,
        heads=True,
    )
    names = configured.family.require_checkpoint_names()
    report = restore_fine_tune_checkpoint(model, names, options, file)
    _require_all(report)
    _logger.info("import | %d variables of %s", report.count(Outcome.RESTORED), report.prefix)
    summary = {"steps": 0, "started_from": report.prefix, "weights": "as in the checkpoint", "trained_as": ""}
    write_detector(model, config, labels, model_dir, extra=summary)
    return report


def _fate(row: RestoredVariable) -> str:
    """Say what came of a variable, and where it has another shape, which."""
    if row.outcome is not Outcome.SKIPPED_SHAPE:
        return row.outcome.value
    return f"{row.outcome.value}, {list(row.found_shape)} in {row.key}"


def _require_all(report: RestoreReport) -> None:
    left = [row for row in report.variables if row.outcome is not Outcome.RESTORED]
    if not left:
        return
    named = "; ".join(f"{row.name} {list(row.shape)}: {_fate(row)}" for row in left[:_NAMED_IN_ERROR])
    more = f"; and {len(left) - _NAMED_IN_ERROR} more" if len(left) > _NAMED_IN_ERROR else ""
    raise ModelError(
        f"expected all {len(report.variables)} variables of the detector, found {len(left)} that do not fit:"
        f" {named}{more}; give the config that the checkpoint was trained with, or train from it with"
        " `detflow train`",
        where=report.prefix,
    )
