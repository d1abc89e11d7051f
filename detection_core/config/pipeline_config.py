"""The type of a parsed pipeline.config, for those who hand one on.

What is in it, `builders` and `config` read: whoever else needs a field asks them for a dataclass.
"""

from __future__ import annotations

from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig as PipelineConfig

__all__ = ["PipelineConfig"]
