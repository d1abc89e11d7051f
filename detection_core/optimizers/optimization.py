"""An optimizer with its learning rate, and moving averages of the weights."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf


def with_average(average: MovingAverage | None, *, asked: bool) -> contextlib.AbstractContextManager[None]:
    """Return a context in which averages, if kept and `asked`, replace the weights."""
    return average.swapped_in() if average is not None and asked else contextlib.nullcontext()


class MovingAverage(tf.Module):
    """An exponential moving average of weights, which often generalises better than the last weights.

    The averages start at zero. At update t, counted from 1, they keep min(decay, (1 + t) / (10 + t)) of their
    value. So the zeros fade within a few tens of updates. Averages that start from the weights, as in
    google/automl, count updates from 0.

    Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992,
    https://doi.org/10.1137/0330046, in the exponential form.
    """

    def __init__(self, variables: Sequence[tf.Variable], decay: float, *, from_weights: bool = False) -> None:
        super().__init__(name="moving_average")
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"moving_average_decay must lie in [0, 1), found {decay:g}. 0.9999 is usual.")
        self.decay = decay
        self._first = 0 if from_weights else 1
        self.averaged = list(variables)
        self.averages = [
            tf.Variable(
                v.value() if from_weights else tf.zeros(v.shape, v.dtype),
                trainable=False,
                name=f"average_{i}",
                aggregation=tf.VariableAggregation.MEAN,
            )
            for i, v in enumerate(self.averaged)
        ]

    def update(self, updates: tf.Tensor) -> None:
        """Move the averages towards the weights; updates is int64 [], their count including this one."""
        t = tf.cast(updates - 1 + self._first, tf.float32)
        decay = tf.minimum(self.decay, (1.0 + t) / (10.0 + t))
        for average, variable in zip(self.averages, self.averaged, strict=True):
            average.assign_sub((average - variable) * tf.cast(1.0 - decay, average.dtype))

    @contextlib.contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Replace the weights by their averages during a `with` block."""
        last = [v.numpy() for v in self.averaged]
        for average, variable in zip(self.averages, self.averaged, strict=True):
            variable.assign(average)
        try:
            yield
        finally:
            for value, variable in zip(last, self.averaged, strict=True):
                variable.assign(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimization:
    """An optimizer and its moving average of weights.

    The optimizers are tf_keras' legacy ones with slots. They run one fused operation per variable on CPU and
    GPU, and use the slot names of Object Detection API checkpoints.

    Attributes:
        optimizer: a `tf_keras.optimizers.legacy.Optimizer`.
        average_decay: decay of the moving average of weights; 0: no average.
        average_from_weights: see `MovingAverage`.
    """

    optimizer: Any
    average_decay: float = 0.0
    average_from_weights: bool = False

    def learning_rate(self) -> tf.Tensor:
        """The rate of the next update, float32 []: the schedule's, after the optimizer's own decay."""
        return self.optimizer._decayed_lr(tf.float32)
