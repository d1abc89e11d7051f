"""A pipeline.config to what makes a training the one that it is, wherever its files lie."""

from __future__ import annotations

import dataclasses

from detection_core.config.load import format_pipeline_config
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.storage import files


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingIdentity:
    """What a training was asked to do.

    Attributes:
        text: the config without its paths and without what evaluates the result.
        inputs: glob patterns of the files that it trains on: the label map, then the records.
    """

    text: str
    inputs: tuple[str, ...]


def build_training_identity(config: TrainEvalPipelineConfig) -> TrainingIdentity:
    """Tell what a config asks a training to do; the config itself is left as it is.

    The text names folders of unfinished work, which an update of detflow must find again: it never changes
    for a config that was there before.
    """
    about = TrainEvalPipelineConfig()
    about.CopyFrom(config)
    reader = about.train_input_reader
    inputs = (files.escape(reader.label_map_path), *reader.tf_record_input_reader.input_path)
    reader.ClearField("label_map_path")
    reader.tf_record_input_reader.ClearField("input_path")
    about.train_config.ClearField("fine_tune_checkpoint")
    for field in ("eval_config", "eval_input_reader"):
        about.ClearField(field)
    return TrainingIdentity(text=format_pipeline_config(about), inputs=inputs)
