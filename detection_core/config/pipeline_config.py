"""The type of a parsed pipeline.config, for those who hand one on.

Only `builders` and `config` read its fields; other packages get dataclasses from them.
"""

from __future__ import annotations

from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig as PipelineConfig

__all__ = ["PipelineConfig"]
