"""Contract of QuantizationRewriter."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from component_specs.annotations import (
    EXAMPLES,
    MODEL,
    MODEL_RUN,
    PIPELINE_CONFIG,
    QUANTIZATION,
    Input,
    Output,
)
from component_specs.trainer import OVERRIDES


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantizationRewriterJob:
    """Train a trained detector on with quantization in its graph, as the `graph_rewriter` block says.

    Attributes:
        examples: what ExampleGen wrote; its `train` split is used.
        model: trained float detector.
        pipeline_config: folder with pipeline.config, as ConfigGen fills it.
        overrides: field path of the pipeline.config to the value that it has in this step, such as the
            `graph_rewriter` block and a shorter `train_config`.
        work_dir: durable folder for checkpoints of unfinished training, outside the outputs.
        checkpoint_minutes: time between two checkpoints, and so what a kill without a warning may cost; 0:
            checkpoints go by steps alone, a tenth of the training or 1000.
        code_version: as Trainer takes it.
        quantized_model: detector folder to fill, `Format-Serving/`.
        quantized_run: folder to fill with checkpoints, as-run config, TensorBoard logs and history.
        quantization: folder to fill with quantization.json, which lists what is quantized and what is not.
    """

    examples: Annotated[str, Input(EXAMPLES)]
    model: Annotated[str, Input(MODEL)]
    quantized_model: Annotated[str, Output(MODEL)]
    quantized_run: Annotated[str, Output(MODEL_RUN)]
    quantization: Annotated[str, Output(QUANTIZATION)]
    pipeline_config: Annotated[str, Input(PIPELINE_CONFIG)]
    work_dir: str
    overrides: Annotated[Mapping[str, Any], OVERRIDES] = dataclasses.field(default_factory=dict)
    checkpoint_minutes: float = 5.0
    code_version: str = ""
