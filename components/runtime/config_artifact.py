"""The artifact that holds a pipeline.config, and a step's own changes to it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.config.pipeline_config import PipelineConfig


def read_pipeline_config(folder: str, overrides: Mapping[str, Any]) -> PipelineConfig:
    """Return the config of a step.

    Args:
        folder: folder of the artifact.
        overrides: field path to value; see `detection_core.config.paths.overrides`.

    Raises:
        ConfigError: for an invalid config or override.
    """
    return apply_overrides(load_pipeline_config(os.path.join(folder, PIPELINE_CONFIG)), overrides)
