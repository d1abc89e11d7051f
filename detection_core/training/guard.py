"""One update's outputs, and what happens when they are not finite."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from detection_core.detectors.base import TOTAL_LOSS
from detection_core.errors import ModelError


class StepOutputs(NamedTuple):
    """What one update tells.

    Attributes:
        losses: name to float32 [], before the update.
        learning_rate: float32 [].
        scalars: name to float32 []: norms where gradients are summarised, the loss's factor in float16.
        skipped: float32 [], above 0 where the update was left out, as its loss or a gradient is not finite.
            A gradient beyond float16 is no reason: the loss's factor follows it.
        histograms: name to float32 [BINS, 3], zeros where none are due, see `measured_histograms`.
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
"""Named losses that a detector may have."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SkippedUpdate:
    """An update that was left out.

    Attributes:
        step: updates before it.
        losses: name to value.
        learning_rate: that it would have been made with.
        is_last: training stops at it.
    """

    step: int
    losses: Mapping[str, float]
    learning_rate: float
    is_last: bool = False


class FiniteGuard(tf.Module):
    """Remembers, on the device, the updates that were left out, without a host synchronisation in each step.

    The loop reads it when it reports and before it writes a checkpoint. Once there are more than may be,
    nothing is updated any more: the weights stay those from before the last of them.

    Attributes:
        count: int64 [], updates that were left out.
        halted: bool [], whether they are too many.
    """

    def __init__(self, step: tf.Variable, limit: int = 0) -> None:
        """Begin.

        Args:
            step: the global step.
            limit: how many updates may be left out; 0: training stops at the first.
        """
        super().__init__(name=SKIPPED_UPDATES)
        self._step, self._limit = step, limit
        self._room = min(limit + 1, _REMEMBERED)
        self._names: list[str] = []
        self.count = tf.Variable(0, dtype=tf.int64, trainable=False, name="count")
        self.halted = tf.Variable(False, trainable=False, name="halted")
        self._steps = tf.Variable(tf.zeros([self._room], tf.int64), trainable=False, name="steps")
        self._rates = tf.Variable(tf.zeros([self._room]), trainable=False, name="rates")
        # Made here, though how many losses there are is known later: a function whose first call makes
        # variables is traced twice.
        self._losses = tf.Variable(tf.zeros([self._room, _LOSSES]), trainable=False, name="losses")
        self._seen = 0

    def begin(self) -> None:
        """Take the count of a checkpoint for known; call it once variables are restored."""
        self._seen = int(self.count.numpy())

    def watch(self, outputs: StepOutputs) -> None:
        """Look at one update's outputs, inside the compiled function, after the step was counted."""
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
        """Wait for the device, and return the updates that were left out since this was last asked.

        Of very many the last few.
        """
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
        """How many updates were left out, as far as `found` has seen."""
        return self._seen

    def refuse(self, update: SkippedUpdate, note: str = "") -> None:
        """Stop the training where an update is one too many.

        Args:
            update: that was found.
            note: what else is known of it, a sentence.

        Raises:
            ModelError: naming the step, the losses at it, and what to do.
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
