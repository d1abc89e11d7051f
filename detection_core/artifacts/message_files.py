"""Names of the files that hold a protocol buffer as text; `detection_core.config` reads and writes them."""

from __future__ import annotations

PIPELINE_CONFIG = "pipeline.config"
"""A TrainEvalPipelineConfig: in a config artifact, a model run and a detector folder."""

LABEL_MAP = "label_map.pbtxt"
"""A StringIntLabelMap: beside examples and in a detector folder."""
