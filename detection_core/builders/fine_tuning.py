"""Which variables a config restores from its fine-tuning checkpoint."""

from __future__ import annotations

from detection_core.detectors.family import extractor_type, model_message
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.train_pb2 import CheckpointVersion
from detection_core.training.checkpoint_names import FineTuneOptions


def fine_tune_checkpoint(config: TrainEvalPipelineConfig) -> str:
    """Return the path of the checkpoint that a config starts from; "" for none."""
    return config.train_config.fine_tune_checkpoint


def build_fine_tune_options(config: TrainEvalPipelineConfig) -> FineTuneOptions:
    """Return what a checked config restores from its `fine_tune_checkpoint`.

    The old `from_detection_checkpoint` decides where `fine_tune_checkpoint_type` is not given.
    """
    train = config.train_config
    old = "detection" if train.from_detection_checkpoint else "classification"
    return FineTuneOptions(
        kind=train.fine_tune_checkpoint_type or old,
        named=train.fine_tune_checkpoint_version == CheckpointVersion.V1,
        extractor=extractor_type(model_message(config.model)[0]),
        heads=train.load_all_detection_checkpoint_vars,
    )
