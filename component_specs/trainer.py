"""Contract of Trainer."""

import dataclasses
import json
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


NODES = "DETFLOW_TRAINING_NODES"
"""Variable of the step's pod with `TrainingNodes`: no parameter, so that a cached training stays valid."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingNodes:
    """The pods that train in place of the step's pod, on a Kubernetes cluster.

    Attributes:
        nodes: number of pods.
        kind: `TrainJob` of Kubeflow Trainer 2.2 or later, or `TFJob` of the training operator 1.
        labels: of the TrainJob or TFJob, such as Kueue's `kueue.x-k8s.io/queue-name`.
        resources: `requests` and `limits` of each pod: resource to quantity, as Kubernetes has them.
    """

    nodes: int
    kind: str = "TrainJob"
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    resources: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)

    def as_text(self) -> str:
        """Return the value of the variable."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @staticmethod
    def from_text(text: str) -> "TrainingNodes":
        """Read the value of the variable."""
        return TrainingNodes(**json.loads(text))
