"""Contract of Trainer."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from component_specs.annotations import EXAMPLES, MODEL, MODEL_RUN, PIPELINE_CONFIG, Input, Output
from component_specs.codecs import JsonObject

OVERRIDES = JsonObject(example='{"train_config.num_steps": 100}', ordered=True)
"""Overrides, applied in order."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainerJob:
    """Train a detector from a pipeline.config."""

    examples: Annotated[str, Input(EXAMPLES)]
    model: Annotated[str, Output(MODEL)]
    model_run: Annotated[str, Output(MODEL_RUN)]
    pipeline_config: Annotated[str, Input(PIPELINE_CONFIG)]
    work_dir: str
    overrides: Annotated[Mapping[str, Any], OVERRIDES] = dataclasses.field(default_factory=dict)
    warm_start_path: str = ""
    warm_start: Annotated[str, Input(MODEL, optional=True)] = ""
    train_steps: int = 0
    learning_rate: float = 0.0
    starting_weights: str = ""
    weights_mirror: str = ""
    checkpoint_minutes: float = 5.0
    stop_reasons: str = ""
    code_version: str = ""
