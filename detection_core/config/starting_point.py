"""What a config's training starts from, by the name under which it is looked for."""

from __future__ import annotations

from detection_core.config.messages.extractors import EXTRACTORS
from detection_core.detectors.family import extractor_type, model_message
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.zoo.keras_backbones import IMAGENET, find_backbone


def fine_tune_checkpoint(config: TrainEvalPipelineConfig) -> str:
    """Return what a config starts from: a path, `zoo:NAME`, `imagenet:BACKBONE`, or "" for nothing.

    Raises:
        ConfigError: where the config says `imagenet`, and nothing is published for its backbone.
    """
    start = config.train_config.fine_tune_checkpoint
    if start != IMAGENET or config.model.WhichOneof("model") is None:
        return start
    message = model_message(config.model)[0]
    extractor = EXTRACTORS.get(extractor_type(message))
    multiplier = message.feature_extractor.depth_multiplier if extractor else 1.0
    return find_backbone(extractor.backbone if extractor else "", multiplier).name
