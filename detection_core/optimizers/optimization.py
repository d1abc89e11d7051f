"""What one training run updates its weights with."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimization:
    """An optimizer and whether weights are averaged.

    The optimizers are tf_keras' slot-keeping ones: one fused operation a variable on CPU and GPU, and the
    slot names that Object Detection API checkpoints have.

    Attributes:
        optimizer: a `tf_keras.optimizers.legacy.Optimizer`.
        average_decay: decay of the moving average of weights; 0 keeps none.
        average_from_weights: see `MovingAverage`.
    """

    optimizer: Any
    average_decay: float = 0.0
    average_from_weights: bool = False

    def learning_rate(self) -> tf.Tensor:
        """The rate of the next update, float32 []: the schedule's, and what the optimizer makes of it."""
        return self.optimizer._decayed_lr(tf.float32)
