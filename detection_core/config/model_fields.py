"""Fields of a config that depend on its family: number of classes, anchors to fit, starting weights."""

import copy
from typing import TYPE_CHECKING, Protocol

from detection_core.config.pipeline_config import Config
from detection_core.detectors.family import AnchorFit, extractor_type, family_of, find_family, model_message
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.zoo.keras_backbones import IMAGENET, find_backbone

if TYPE_CHECKING:
    import numpy as np


class ModelMessage(Protocol):
    """An arm of `model`, of any family."""

    num_classes: int


def foreground_classes(message: ModelMessage) -> int:
    """Return C of a model's message: num_classes counts an explicit background."""
    return message.num_classes - int(getattr(message, "explicit_background_class", False))


def configured_classes(config: TrainEvalPipelineConfig) -> int | None:
    """Return the config's number of classes, without the background; None if unset."""
    message = model_message(config.model)[0]
    return foreground_classes(message) if message is not None and message.HasField(_FIELD) else None


def with_classes(config: Config, classes: int) -> Config:
    """Return the config with its number of classes filled in if it is unset.

    A number that is set stays; the builder of the detector compares it with the label map. `classes` is
    without the background.
    """
    message = model_message(config.model)[0]
    if message is None or message.HasField(_FIELD):
        return config
    result = copy.deepcopy(config)
    filled = model_message(result.model)[0]
    filled.num_classes = classes
    filled.num_classes += classes - foreground_classes(filled)
    return result


def classes_field(config: TrainEvalPipelineConfig) -> str:
    """Return the path of the field, for errors."""
    return f"{model_message(config.model)[1]}.{_FIELD}"


_FIELD = "num_classes"


def fit_anchors(
    config: TrainEvalPipelineConfig, boxes: "np.ndarray", *, keep_count: bool = False
) -> AnchorFit | None:
    """Choose anchor sizes and aspect ratios that fit the given boxes; None without anchors to fit.

    Args:
        config: a checked config.
        boxes: float [N, 4] (ymin, xmin, ymax, xmax), normalised to the network's input.
        keep_count: keep the number of anchors per location, because initial weights may depend on it.

    Raises:
        ConfigError: when the config names no family, or images of different sizes.
    """
    support = family_of(config.model).anchors
    if support is None or support.fit is None:
        return None
    return support.fit(*model_message(config.model), boxes, keep_count=keep_count)


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
