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
    """Train a detector from a pipeline.config.

    Attributes:
        examples: output of ExampleGen; its `train` split is used.
        warm_start: the deployed detector, to start from; it must have the classes of the examples.
        pipeline_config: folder with pipeline.config, from ConfigGen.
        overrides: field path of the pipeline.config to its value in this step.
        warm_start_path: path of a detector to start from, if no step makes it; "" for none.
        work_dir: durable folder for checkpoints of unfinished training, outside the outputs. In it
            each training has a folder named by the fingerprint of its inputs.
        train_steps: number of training steps, without changing the learning rate schedule; 0: as in the
            pipeline.config.
        learning_rate: peak learning rate; 0: as in the pipeline.config.
        starting_weights: fingerprint of the starting weights; part of the cache key.
        weights_mirror: mirror of the published weights that the config names; see RunChecker.
        checkpoint_minutes: minutes between checkpoints, so the most that a sudden kill loses. 0:
            checkpoints by steps only, every tenth of the training or 1000.
        stop_reasons: why DataValidator refuses the examples; empty: it accepts them. A parameter, so that
            examples that pass a second validation do not cause a second training.
        code_version: fingerprint of the code, which keys the cache. Unfinished training of other code is
            resumed; finished training of other code is repeated.
        model: detector folder to fill, `Format-Serving/`.
        model_run: folder to fill with checkpoints, as-run config, TensorBoard logs and history.
    """

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
