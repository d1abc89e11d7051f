"""Contract of RunChecker."""

import dataclasses
from typing import Annotated

from component_specs.example_gen import DEFAULT_SPLITS, SPLITS, Splits

DEPLOYED = "deployed"
"""Value of `warm_start` that means the model at the push destination."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunCheckerJob:
    """Compute, at the start of a run, the values that decide which steps are cache hits.

    It has no artifacts: its output parameters are parameters of the other steps.
    """

    data_path: str
    push_destination: str
    data_format: str = "auto"
    splits: Annotated[Splits, SPLITS] = dataclasses.field(default_factory=lambda: dict(DEFAULT_SPLITS))
    label_map: str = ""
    span: str = "latest"
    window: int = 1
    eval_window: int = 1
    span_ready_file: str = ""
    request: str = ""
    thresholds: str = "{}"
    train_steps: int = 0
    learning_rate: float = 0.0
    work_dir: str = ""
    scheduled_time: str = ""
    run_id: str = ""
    warm_start: str = ""
    fine_tune_checkpoint: str = ""
    weights_mirror: str = ""
    compared_spans: int = 30
