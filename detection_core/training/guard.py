"""Count updates skipped because a value is not finite, and stop when there are too many."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from detection_core.detectors.base import TOTAL_LOSS
from detection_core.errors import ModelError


class StepOutputs(NamedTuple):
    """Outputs of one update.

    Attributes:
        losses: name -> float32 [], before the update.
        learning_rate: float32 [].
        scalars: name -> float32 []: gradient norms if summarised, and the loss scale in float16.
        skipped: float32 [], above 0 where the update was skipped because its loss or a gradient is not
            finite. A gradient beyond float16's range does not count: the loss scale adapts to it.
        histograms: name -> float32 [BINS, 3], zeros where none are due, see `measured_histograms`.
    """

    losses: dict[str, tf.Tensor]
    learning_rate: tf.Tensor
    scalars: dict[str, tf.Tensor]
    skipped: tf.Tensor
    histograms: dict[str, tf.Tensor]


SKIPPED_UPDATES = "skipped_updates"
"""Name of the guard in a checkpoint."""

_REMEMBERED = 16
_LOSSES = 64
"""Maximum number of named losses of a detector."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SkippedUpdate:
    """A skipped update.

    Attributes:
        step: number of updates before it.
        losses: name -> value.
        learning_rate: that it would have used.
        is_last: whether training stops at it.
    """

    step: int
    losses: Mapping[str, float]
    learning_rate: float
    is_last: bool = False


class FiniteGuard(tf.Module):
    """Records skipped updates on the device, without a host synchronisation in each step.

    The loop reads it at each report and before it writes a checkpoint. Once the limit is exceeded, nothing
    is updated any more: the weights stay those before the last skipped update.

    Attributes:
        count: int64 [], number of skipped updates.
        halted: bool [], whether there are too many.
    """

    def __init__(self, step: tf.Variable, limit: int = 0) -> None:
        """Create the variables; at limit 0, training stops at the first skipped update."""
        super().__init__(name=SKIPPED_UPDATES)
        self._step, self._limit = step, limit
        self._room = min(limit + 1, _REMEMBERED)
        self._names: list[str] = []
        self.count = tf.Variable(0, dtype=tf.int64, trainable=False, name="count")
        self.halted = tf.Variable(False, trainable=False, name="halted")
        self._steps = tf.Variable(tf.zeros([self._room], tf.int64), trainable=False, name="steps")
        self._rates = tf.Variable(tf.zeros([self._room]), trainable=False, name="rates")
        # Created before the number of losses is known: a function that creates variables is traced twice.
        self._losses = tf.Variable(tf.zeros([self._room, _LOSSES]), trainable=False, name="losses")
        self._seen = 0

    def begin(self) -> None:
        """Treat a restored checkpoint's count as already reported; call it once variables are restored."""
        self._seen = int(self.count.numpy())

    def watch(self, outputs: StepOutputs) -> None:
        """Check one update's outputs, inside the compiled function, after the step was counted."""
        self._names = sorted(outputs.losses)
        skipped = tf.logical_and(outputs.skipped > 0, tf.logical_not(self.halted))
        number = self.count.read_value()
        here = tf.logical_and(tf.range(self._room, dtype=tf.int64) == number % self._room, skipped)
        losses = tf.stack([tf.cast(outputs.losses[name], tf.float32) for name in self._names])
        losses = tf.pad(losses, [[0, _LOSSES - len(self._names)]])
        self._losses.assign(tf.where(here[:, tf.newaxis], losses, self._losses))
        self._rates.assign(tf.where(here, outputs.learning_rate, self._rates))
        self._steps.assign(tf.where(here, self._step - 1, self._steps))
        number += tf.cast(skipped, tf.int64)
        self.count.assign(number)
        self.halted.assign(number > self._limit)

    def found(self) -> list[SkippedUpdate]:
        """Wait for the device, and return updates skipped since the last call, the last few of very many."""
        count = int(self.count.numpy())
        if count == self._seen:
            return []
        steps, rates, losses = self._steps.numpy(), self._rates.numpy(), self._losses.numpy()
        losses = losses[:, : len(self._names)]
        numbers = range(max(self._seen, count - self._room), count)
        self._seen = count
        return [
            SkippedUpdate(
                step=int(steps[number % self._room]),
                losses=dict(zip(self._names, map(float, losses[number % self._room]), strict=True)),
                learning_rate=float(rates[number % self._room]),
                is_last=number == self._limit,
            )
            for number in numbers
        ]

    @property
    def total(self) -> int:
        """Number of skipped updates that `found` has seen."""
        return self._seen

    def refuse(self, update: SkippedUpdate, note: str = "") -> None:
        """Stop the training if a skipped update exceeds the limit.

        `note` is a sentence with further details for the error.

        Raises:
            ModelError: naming the step, its losses, and the remedy.
        """
        if not update.is_last:
            return
        parts = ", ".join(f"{name} {value:g}" for name, value in update.losses.items())
        finite = tf.math.is_finite(update.losses[TOTAL_LOSS])
        expected = "finite gradients" if finite else "a finite loss"
        before = f" after {self._limit} updates that were left out" if self._limit else ""
        raise ModelError(
            f"expected {expected}, found {parts} at learning rate {update.learning_rate:g}{before}. Lower the"
            " learning rate or lengthen its warm-up, set train_config.gradient_clipping_by_norm (say 10), or"
            f" look for wrong boxes in the examples. Checkpoints from before this step are kept.{note}",
            where=f"training step {update.step}",
        )
