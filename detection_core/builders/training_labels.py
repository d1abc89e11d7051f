"""train_config and model to the labels of an image that are trained on."""

from __future__ import annotations

from typing import Any

from detection_core.builders.input_reader import ScoreColumns
from detection_core.config.messages.pipeline import label_problems
from detection_core.config.problems import raise_first
from detection_core.data.label_targets import LabelTargets
from detection_core.protos import model_pb2, pipeline_pb2


def foreground_classes(message: Any) -> int:
    """Return C of an Ssd or FasterRcnn or CenterNet message: num_classes counts an explicit background."""
    return int(message.num_classes) - int(getattr(message, "explicit_background_class", False))


def score_columns(model: model_pb2.DetectionModel) -> ScoreColumns:
    """Return the layout of recorded class scores for a model: num_classes entries."""
    arm = model.WhichOneof("model")
    message: Any = getattr(model, str(arm), None)
    return ScoreColumns(
        count=getattr(message, "num_classes", 0),
        background=getattr(message, "explicit_background_class", False),
    )


def build_label_targets(config: pipeline_pb2.TrainEvalPipelineConfig) -> LabelTargets:
    """Build what chooses the labels that a model is trained on.

    Args:
        config: its train_config says which labels, its train_input_reader what is read.

    Raises:
        ConfigError: when scores are to be used that are not read, or beside merged boxes, or when the box
            coder wants other keypoints than are read.
    """
    train, reader = config.train_config, config.train_input_reader
    raise_first(label_problems(config))
    message: Any = getattr(config.model, str(config.model.WhichOneof("model")), None)
    return LabelTargets(
        classes=foreground_classes(message) if message is not None else 0,
        use_scores=train.use_multiclass_scores,
        merge_equal_boxes=train.merge_multiple_label_boxes,
        keypoint_weights=tuple(reader.keypoint_type_weight),
    )
