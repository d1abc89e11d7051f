"""Load a training's starting weights: from a detector, from a published checkpoint, or random."""

import dataclasses
import logging

from detection_core.artifacts.model_run import RESTORED_TABLE
from detection_core.builders.detector import configured_model
from detection_core.builders.train_plan import build_fine_tune_options, freezes_batch_norm
from detection_core.config.model_fields import fine_tune_checkpoint
from detection_core.config.paths.overrides import apply_overrides
from detection_core.config.pipeline_config import CheckedConfig, PipelineConfig
from detection_core.detectors.base import Detector
from detection_core.errors import DetectionError
from detection_core.exporters.detector_folder import load_detector
from detection_core.training.application_weights import fill_backbone, load_application, warn_of_folded_norms
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.checkpoint_variables import TYPES, Outcome, RestoreReport, checkpoint_content
from detection_core.training.restore import copy_matching_weights, restore_fine_tune_checkpoint
from detection_core.zoo.starting_points import fetch_start

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartingWeights:
    """Origin of the starting weights.

    Attributes:
        source: `random weights`, or the detector or checkpoint.
        restored: status of each variable, for a published checkpoint.
    """

    source: str
    restored: RestoreReport | None = None

    def counts(self) -> dict[str, int]:
        """Numbers of variables restored, skipped, missing and unused; empty without a checkpoint."""
        return self.restored.counts() if self.restored else {}

    def tables(self) -> dict[str, str]:
        """Files for the record of the run, name to text."""
        return {RESTORED_TABLE: self.restored.table() + "\n"} if self.restored else {}


def fill_starting_weights(model: Detector, config: CheckedConfig, warm_start_dir: str) -> StartingWeights:
    """Load a new model's starting weights: of the detector folder, or if it is "" the `fine_tune_checkpoint`.

    Raises:
        ModelError: if the weights cannot be read or do not fit.
    """
    checkpoint = fine_tune_checkpoint(config)
    if warm_start_dir:
        if checkpoint:
            _logger.warning(
                "the warm start takes the place of train_config.fine_tune_checkpoint %s", checkpoint
            )
        source = load_detector(warm_start_dir, kinds=("float",)).model
        copied = copy_matching_weights(source, model, where=warm_start_dir)
        warn_of_folded_norms(model, [v.name for v in source.variables], frozen=freezes_batch_norm(config))
        return StartingWeights(source=f"{copied} weights of {warm_start_dir}")
    if checkpoint:
        report = _restored(model, config, checkpoint)
        _logger.info("%s", report.summary())
        taken = [f"{row.name}:0" for row in report.variables if row.outcome is Outcome.RESTORED]
        warn_of_folded_norms(model, taken, frozen=freezes_batch_norm(config))
        return StartingWeights(source=checkpoint, restored=report)
    return StartingWeights(source="random weights")


def take_checkpoint_as_it_is(config: PipelineConfig) -> PipelineConfig:
    """Return a config whose checkpoint type follows the files of `fine_tune_checkpoint`, as in google/automl.

    A TensorFlow 1 detector also provides its heads, as far as they fit. The config is unchanged if the
    checkpoint is missing, or is neither a detector's nor a classifier's.
    """
    path = fine_tune_checkpoint(config)
    # The config may still lack classes; only the family's name is read.
    names = configured_model(CheckedConfig(config)).family.require_checkpoint_names()
    try:
        content = checkpoint_content(CheckpointFile(path, names_only=True), names)
    except DetectionError as error:
        _logger.info("%s is taken as the config says: %s", path, error.message)
        return config
    if not content.of:
        return config
    changes = {
        "fine_tune_checkpoint_version": "V1" if content.named else "V2",
        "fine_tune_checkpoint_type": TYPES[content.of][0],
        "load_all_detection_checkpoint_vars": content.named and content.heads,
    }
    return apply_overrides(config, {f"train_config.{name}": value for name, value in changes.items()})


def _restored(model: Detector, config: CheckedConfig, checkpoint: str) -> RestoreReport:
    """Load a checkpoint or published weights, which are downloaded, into a model."""
    start = fetch_start(checkpoint)
    if start.backbone:
        application = load_application(
            start.backbone.application,
            start.path,
            depth_multiplier=start.backbone.depth_multiplier,
            minimalistic=start.backbone.minimalistic,
        )
        return fill_backbone(model, application, start.backbone.backbone, source=checkpoint)
    names = configured_model(config).family.require_checkpoint_names()
    options = build_fine_tune_options(config)
    return restore_fine_tune_checkpoint(model, names, options, CheckpointFile(start.path))
