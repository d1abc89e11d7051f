"""Contract of Trainer."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from component_specs.annotations import EXAMPLES, MODEL, MODEL_RUN, Input, Output


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainerJob:
    """Train a detector from a pipeline.config.

    Attributes:
        examples: what ExampleGen wrote; its `train` split is used.
        warm_start: a detector to start from.
        pipeline_config: text of the pipeline.config, overrides applied.
        warm_start_path: path of a detector to start from, for one that no step makes; "" for none.
        work_dir: durable folder for checkpoints of unfinished training, outside the outputs; below it
            training keeps a folder named by the fingerprint of what it was asked to do.
        code_version: fingerprint of the code; only there to key the cache.
        model: detector folder to fill, `Format-Serving/`.
        model_run: folder to fill with checkpoints, as-run config, TensorBoard logs and history.
    """

    examples: Annotated[str, Input(EXAMPLES)]
    model: Annotated[str, Output(MODEL)]
    model_run: Annotated[str, Output(MODEL_RUN)]
    pipeline_config: str
    work_dir: str
    warm_start_path: str = ""
    warm_start: Annotated[str, Input(MODEL, optional=True)] = ""
    code_version: str = ""
