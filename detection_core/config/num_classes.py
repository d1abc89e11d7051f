"""The number of classes: the config's, or the label map's if the config has none."""

from __future__ import annotations

import copy

from detection_core.config.pipeline_config import Config
from detection_core.detectors.family import model_message
from detection_core.protos.center_net_pb2 import CenterNet
from detection_core.protos.faster_rcnn_pb2 import FasterRcnn
from detection_core.protos.model_pb2 import ExperimentalModel
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.ssd_pb2 import Ssd

ModelMessage = Ssd | FasterRcnn | CenterNet | ExperimentalModel
"""An arm of `model`."""


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
