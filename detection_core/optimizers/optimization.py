"""What one training run updates its weights with."""

from __future__ import annotations

import dataclasses
from typing import Any

from detection_core.optimizers.schedules import Schedule


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimization:
    """An optimizer, its learning rate and whether weights are averaged.

    The optimizers are tf_keras' slot-keeping ones: one fused operation a variable on CPU and GPU, and the
    slot names that Object Detection API checkpoints have.

    Attributes:
        optimizer: a `tf_keras.optimizers.legacy.Optimizer` that reads `schedule` itself.
        schedule: the learning rate by step, for logs.
        average_decay: decay of the moving average of weights; 0 keeps none.
    """

    optimizer: Any
    schedule: Schedule
    average_decay: float = 0.0
