"""The artifact that holds a pipeline.config, and a step's own changes to it."""

from __future__ import annotations

import os

from components.runtime.json_parameter import parse_json, shorten
from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

FILE_NAME = "pipeline.config"


def read_pipeline_config(folder: str, overrides: str) -> TrainEvalPipelineConfig:
    """Return the config of a step.

    Args:
        folder: of the artifact.
        overrides: JSON object, field path to value; see `detection_core.config.paths.overrides`.

    Raises:
        ConfigError: for a config or an override that cannot be used.
    """
    changes = parse_json(overrides, "overrides")
    if not isinstance(changes, dict):
        raise ConfigError(
            f'expected a JSON object such as {{"train_config.num_steps": 100}}, found {shorten(overrides)}',
            where="overrides",
        )
    return apply_overrides(load_pipeline_config(os.path.join(folder, FILE_NAME)), changes)
