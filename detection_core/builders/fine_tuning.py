"""Which variables a config restores from its fine-tuning checkpoint."""

from __future__ import annotations

from detection_core.config.pipeline_config import CheckedConfig
from detection_core.detectors.checkpoint_names import FineTuneOptions
from detection_core.detectors.family import extractor_type, model_message
from detection_core.protos.train_pb2 import CheckpointVersion
from detection_core.zoo.starting_points import ZOO


def freezes_batch_norm(config: CheckedConfig) -> bool:
    """Tell whether a training normalises with the statistics that it starts with."""
    return bool(getattr(model_message(config.model)[0], "freeze_batchnorm", False))


def build_fine_tune_options(config: CheckedConfig) -> FineTuneOptions:
    """Return what a checked config restores from its `fine_tune_checkpoint`.

    The old `from_detection_checkpoint` decides where `fine_tune_checkpoint_type` is not given. A detector of
    the model zoo is object-based, and gives all that fits where no type is given.
    """
    train = config.train_config
    of_zoo = train.fine_tune_checkpoint.startswith(ZOO)
    old = "detection" if train.from_detection_checkpoint else "classification"
    return FineTuneOptions(
        kind=train.fine_tune_checkpoint_type or ("full" if of_zoo else old),
        named=train.fine_tune_checkpoint_version == CheckpointVersion.V1 and not of_zoo,
        extractor=extractor_type(model_message(config.model)[0]),
        heads=train.load_all_detection_checkpoint_vars,
    )
