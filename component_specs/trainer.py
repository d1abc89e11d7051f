"""Contract of Trainer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from component_specs.annotations import EXAMPLES, MODEL, MODEL_RUN, PIPELINE_CONFIG, Input, Output
from component_specs.codecs import JsonObject

OVERRIDES = JsonObject(example='{"train_config.num_steps": 100}', ordered=True)
"""Overrides are applied in the order in which they are given."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainerJob:
    """Train a detector from a pipeline.config.

    Attributes:
        examples: what ExampleGen wrote; its `train` split is used.
        warm_start: the deployed detector, to start from; it must know the classes of the examples.
        pipeline_config: folder with pipeline.config, as ConfigGen fills it.
        overrides: field path of the pipeline.config to the value that it has in this step.
        warm_start_path: path of a detector to start from, for one that no step makes; "" for none.
        work_dir: durable folder for checkpoints of unfinished training, outside the outputs; below it
            training keeps a folder named by the fingerprint of what it was asked to do.
        train_steps: how many steps to train, the learning rate's schedule staying as it is; 0: as many as the
            pipeline.config says.
        learning_rate: peak of the learning rate; 0: what the pipeline.config says.
        starting_weights: fingerprint of the weights that training starts from; only there to key the cache.
        weights_mirror: what has copies of published weights that the config names; see RunChecker.
        checkpoint_minutes: time between two checkpoints, and so what a kill without a warning may cost; 0:
            checkpoints go by steps alone, a tenth of the training or 1000.
        stop_reasons: why DataValidator refuses the examples; empty: it does not. It is a parameter, so that
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
