"""The starting point of a config's training, in the form that is looked up."""

from __future__ import annotations

from detection_core.detectors.family import extractor_type, find_family, model_message
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.zoo.keras_backbones import IMAGENET, find_backbone


def fine_tune_checkpoint(config: TrainEvalPipelineConfig) -> str:
    """Return the starting point: a path, `zoo:NAME`, `imagenet:BACKBONE`, or "" for none.

    Raises:
        ConfigError: when the config says `imagenet`, and nothing is published for its backbone.
    """
    start = config.train_config.fine_tune_checkpoint
    if start != IMAGENET or config.model.WhichOneof("model") is None:
        return start
    message, family = model_message(config.model)[0], find_family(config.model)
    support = family.checkpoints if family else None
    backbone = support.backbone(extractor_type(message)) if support else ""
    return find_backbone(backbone, getattr(message.feature_extractor, "depth_multiplier", 1.0)).name
