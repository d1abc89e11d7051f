"""Convert a published checkpoint to a detector without training."""

import logging

from detection_core.artifacts.model_run import RESTORED_TABLE
from detection_core.builders.detector import configured_model
from detection_core.config.check import check_classes_filled_in
from detection_core.config.label_map_file import load_label_map
from detection_core.config.model_fields import classes_field
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.label_map import LabelMap, LabelMapItem
from detection_core.detectors.checkpoint_names import FineTuneOptions
from detection_core.errors import ConfigError, ModelError
from detection_core.exporters.detector_folder import write_detector
from detection_core.tasks.train import check_classes
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.checkpoint_variables import Outcome, RestoredVariable, RestoreReport
from detection_core.training.restore import restore_fine_tune_checkpoint
from detection_core.zoo.coco_classes import COCO_CLASSES
from detection_core.zoo.starting_points import ZOO, FetchedStart, fetch_start, is_named

_logger = logging.getLogger(__name__)
_NAMED_IN_ERROR = 5


def import_checkpoint(
    config: CheckedConfig, checkpoint: str, *, label_map: str, model_dir: str
) -> RestoreReport:
    """Write a detector folder with the weights of a detector's checkpoint.

    Args:
        config: model config of the checkpoint; its training settings are ignored.
        checkpoint: prefix of the checkpoint's files, or their folder, object-based (TensorFlow 2) or
            name-based (TensorFlow 1). Or `zoo:NAME`, which is downloaded if it is not cached.
        label_map: path of the classes, in text format; "" for COCO's, with `zoo:NAME`.
        model_dir: detector folder to write.

    Returns:
        The status of each variable: all were restored.

    Raises:
        ConfigError: if the config cannot be used, classes are missing or not the label map's, or only a
            backbone was saved.
        ModelError: if the checkpoint cannot be fetched or read, or lacks a variable of the detector.
    """
    if is_named(checkpoint) and not checkpoint.startswith(ZOO):
        raise ConfigError(
            f"expected the checkpoint of a whole detector, found {checkpoint}, weights of a backbone; train"
            " from them, with train.start_from or train_config.fine_tune_checkpoint",
            where="--checkpoint",
        )
    start = fetch_start(checkpoint)
    labels = _labels(label_map, start)
    config = check_classes_filled_in(config, labels.num_classes)
    configured = configured_model(config)
    model = configured.build()
    check_classes(model, labels, classes_field(config))
    file = CheckpointFile(start.path)
    named = not file.is_object_based
    options = FineTuneOptions(
        kind="detection" if named else "full", named=named, extractor=configured.extractor, heads=True
    )
    names = configured.family.require_checkpoint_names()
    report = restore_fine_tune_checkpoint(model, names, options, file)
    _require_all(report)
    _logger.info("import | %d variables of %s", report.count(Outcome.RESTORED), report.prefix)
    source = checkpoint if start.model else report.prefix
    weights = {"weights": "as in the checkpoint", "moving_averages": report.averaged}
    summary = {"steps": 0, "started_from": source, **weights, "trained_as": ""}
    texts = {RESTORED_TABLE: report.table() + "\n"}
    write_detector(model, config, labels, model_dir, extra=summary, texts=texts)
    return report


def _labels(label_map: str, start: FetchedStart) -> LabelMap:
    if label_map:
        return load_label_map(label_map)
    if start.model:
        items = (LabelMapItem(id=number, name=name) for number, name in COCO_CLASSES.items())
        return LabelMap(items=tuple(items))
    raise ConfigError("expected the classes of the checkpoint's detector, found none", where="--label-map")


def _fate(row: RestoredVariable) -> str:
    """Return the status of a variable, with both shapes if they differ."""
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
