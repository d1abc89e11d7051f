"""The types of a parsed pipeline.config, for those who hand one on.

Only `builders` and `config` read its fields; other packages get dataclasses from them.
"""

from __future__ import annotations

from typing import NewType, TypeVar

from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig as PipelineConfig

__all__ = ["CheckedConfig", "Config", "PipelineConfig"]

CheckedConfig = NewType("CheckedConfig", PipelineConfig)
"""A config that `config.check` accepted; builders take it, check nothing and refuse nothing."""

Config = TypeVar("Config", bound=PipelineConfig)
"""Either; a copy of a checked config with other files or lengths is checked, too."""
