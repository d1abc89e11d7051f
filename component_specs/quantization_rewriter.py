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
from component_specs.example_gen import BEAM_ARGS
from component_specs.trainer import OVERRIDES


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantizationRewriterJob:
    """Continue training a detector with quantization in its graph, as the `graph_rewriter` block says."""

    examples: Annotated[str, Input(EXAMPLES)]
    model: Annotated[str, Input(MODEL)]
    quantized_model: Annotated[str, Output(MODEL)]
    quantized_run: Annotated[str, Output(MODEL_RUN)]
    quantization: Annotated[str, Output(QUANTIZATION)]
    pipeline_config: Annotated[str, Input(PIPELINE_CONFIG)]
    work_dir: str
    overrides: Annotated[Mapping[str, Any], OVERRIDES] = dataclasses.field(default_factory=dict)
    checkpoint_minutes: float = 5.0
    representative_examples: int = 64
    distributed: bool = False
    beam_args: Annotated[tuple[str, ...], BEAM_ARGS] = ()
    code_version: str = ""
