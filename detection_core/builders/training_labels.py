"""train_config and model to the labels of an image that are trained on."""

from __future__ import annotations

from detection_core.builders.input_reader import ScoreColumns
from detection_core.config.num_classes import ModelMessage, foreground_classes
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.label_targets import LabelTargets
from detection_core.detectors.family import model_message
from detection_core.protos import model_pb2


def score_columns(model: model_pb2.DetectionModel) -> ScoreColumns:
    """Return the layout of recorded class scores for a model: num_classes entries."""
    message: ModelMessage | None = model_message(model)[0]
    return ScoreColumns(
        count=getattr(message, "num_classes", 0),
        background=getattr(message, "explicit_background_class", False),
    )


def build_label_targets(config: CheckedConfig) -> LabelTargets:
    """Build what chooses the labels that a model is trained on.

    Args:
        config: its train_config says which labels, its train_input_reader what is read.
    """
    train, reader = config.train_config, config.train_input_reader
    message: ModelMessage | None = model_message(config.model)[0]
    return LabelTargets(
        classes=foreground_classes(message) if message is not None else 0,
        use_scores=train.use_multiclass_scores,
        merge_equal_boxes=train.merge_multiple_label_boxes,
        keypoint_weights=tuple(reader.keypoint_type_weight),
    )
