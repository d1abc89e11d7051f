"""Types of a parsed pipeline.config, for code that passes it on.

Only `builders` and `config` read its fields; other packages get dataclasses from them.
"""

from typing import NewType, TypeVar

from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig as PipelineConfig

__all__ = ["CheckedConfig", "Config", "PipelineConfig"]

CheckedConfig = NewType("CheckedConfig", PipelineConfig)
"""A config that `config.check` accepted; builders take it without further checks."""

Config = TypeVar("Config", bound=PipelineConfig)
"""A checked or unchecked config; changing files or lengths of a checked config keeps it checked."""
