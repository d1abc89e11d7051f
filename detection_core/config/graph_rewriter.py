"""Separate the `graph_rewriter` block from the rest of a pipeline.config.

The block says how a trained detector is quantized. Training of the float detector must not depend on it.
"""

from __future__ import annotations

from detection_core.config.text.text_proto import format_message
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

FIELD = "graph_rewriter"


def has_graph_rewriter(config: TrainEvalPipelineConfig) -> bool:
    """Tell whether a config asks for quantization-aware training."""
    return config.HasField("graph_rewriter")


def format_graph_rewriter(config: TrainEvalPipelineConfig) -> str:
    """Return the block as one line of text that an override of `FIELD` takes; "" without a block."""
    return format_message(config.graph_rewriter, one_line=True) if has_graph_rewriter(config) else ""


def format_without_graph_rewriter(config: TrainEvalPipelineConfig) -> str:
    """Return the rest of the config as one line of text.

    One line, because indentation is a third of the text and a parameter escapes each line break several
    times.
    """
    rest = TrainEvalPipelineConfig()
    rest.CopyFrom(config)
    rest.ClearField("graph_rewriter")
    return format_message(rest, one_line=True)
