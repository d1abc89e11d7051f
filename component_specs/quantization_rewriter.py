"""Contract of QuantizationRewriter."""

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
    """Continue training a detector with quantization in its graph, as the `graph_rewriter` block says.

    Attributes:
        examples: output of ExampleGen; its `train` split is used.
        model: trained float detector.
        pipeline_config: folder with pipeline.config, from ConfigGen.
        overrides: field path of the pipeline.config to its value in this step, such as the
            `graph_rewriter` block and a shorter `train_config`.
        work_dir: durable folder for checkpoints of unfinished training, outside the outputs.
        checkpoint_minutes: minutes between checkpoints, so the most that a sudden kill loses. 0:
            checkpoints by steps only, every tenth of the training or 1000.
        code_version: as in Trainer.
        quantized_model: detector folder to fill, `Format-Serving/`.
        quantized_run: folder to fill with checkpoints, as-run config, TensorBoard logs and history.
        quantization: folder to fill with quantization.json, which lists quantized and unquantized parts.
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
