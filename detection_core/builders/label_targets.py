"""train_config and model to what of an image's labels is trained on."""

from __future__ import annotations

from typing import Any

from detection_core.builders.input_reader import ScoreColumns
from detection_core.data.label_targets import LabelTargets
from detection_core.errors import ConfigError
from detection_core.protos import model_pb2, pipeline_pb2


def foreground_classes(message: Any) -> int:
    """Return C of an Ssd or FasterRcnn or CenterNet message: num_classes counts an explicit background."""
    return int(message.num_classes) - int(getattr(message, "explicit_background_class", False))


def score_columns(model: model_pb2.DetectionModel) -> ScoreColumns:
    """Tell what recorded class scores look like for a model: as many as its num_classes says."""
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
    if train.use_multiclass_scores and not reader.load_multiclass_scores:
        raise ConfigError(
            "expected scores to use, found none; set train_input_reader.load_multiclass_scores: true",
            where="train_config.use_multiclass_scores",
        )
    if train.use_multiclass_scores and train.merge_multiple_label_boxes:
        raise ConfigError(
            "expected merge_multiple_label_boxes or use_multiclass_scores, found both; scores tell all"
            " classes of a box already: remove merge_multiple_label_boxes",
            where="train_config.merge_multiple_label_boxes",
        )
    coder = config.model.ssd.box_coder
    wanted = coder.keypoint_box_coder.num_keypoints
    if coder.HasField("keypoint_box_coder") and reader.num_keypoints != wanted:
        raise ConfigError(
            f"expected the {wanted} keypoints of model.ssd.box_coder.keypoint_box_coder, found"
            f" {reader.num_keypoints}; set num_keypoints: {wanted}",
            where="train_input_reader.num_keypoints",
        )
    message: Any = getattr(config.model, str(config.model.WhichOneof("model")), None)
    return LabelTargets(
        classes=foreground_classes(message) if message is not None else 0,
        use_scores=train.use_multiclass_scores,
        merge_equal_boxes=train.merge_multiple_label_boxes,
        keypoint_weights=tuple(reader.keypoint_type_weight),
    )
