"""A pipeline.config to what makes a training the one that it is, wherever its files lie."""

from __future__ import annotations

import copy
import dataclasses

from detection_core.builders.validation_plan import build_validation
from detection_core.config.load import format_pipeline_config
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.storage import files

_MEASURING = (
    "eval_interval_secs",
    "metrics_set",
    "use_moving_averages",
    "include_metrics_per_category",
    "all_metrics_per_category",
    "super_categories",
    "recall_lower_bound",
    "recall_upper_bound",
    "skip_predictions_for_unlabeled_class",
)
"""Fields of `eval_config` by which a training is validated; the others draw."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingIdentity:
    """What a training was asked to do.

    Attributes:
        text: the config without its paths, without where its training is followed, and without what evaluates
            the result, unless it is validated.
        inputs: glob patterns of the files that it trains on: the label map, then the records; where it is
            validated, then the same of what it is validated on.
    """

    text: str
    inputs: tuple[str, ...]


def build_training_identity(config: CheckedConfig) -> TrainingIdentity:
    """Tell what a config asks a training to do; the config itself is left as it is.

    The text names folders of unfinished work, which an update of detflow must find again: it never changes
    for a config that was there before.
    """
    about = copy.deepcopy(config)
    reader = about.train_input_reader
    inputs = (files.escape(reader.label_map_path), *reader.tf_record_input_reader.input_path)
    reader.ClearField("label_map_path")
    reader.tf_record_input_reader.ClearField("input_path")
    about.train_config.ClearField("fine_tune_checkpoint")
    about.train_config.ClearField("monitoring")
    for field in ("eval_config", "eval_input_reader"):
        about.ClearField(field)
    if build_validation(config, checkpoint_every=1) is not None:
        # Which weights are written then depends on what they are measured on, and how.
        evaluated = config.eval_input_reader[0]
        inputs += (files.escape(evaluated.label_map_path), *evaluated.tf_record_input_reader.input_path)
        about.eval_config.CopyFrom(config.eval_config)
        for present, _ in config.eval_config.ListFields():
            if present.name not in _MEASURING:
                about.eval_config.ClearField(present.name)
    return TrainingIdentity(text=format_pipeline_config(about), inputs=inputs)
