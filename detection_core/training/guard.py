"""Detects a loss that is not finite, without a host synchronisation in each step."""

from __future__ import annotations

import tensorflow as tf

from detection_core.detectors.base import TOTAL_LOSS
from detection_core.errors import ModelError
from detection_core.training.step import StepOutputs


class FiniteGuard:
    """Remembers, on the device, the first update whose loss was not finite.

    The loop reads it when it reports and before it writes a checkpoint, so that no checkpoint holds weights
    from after that update.
    """

    def __init__(self, step: tf.Variable) -> None:
        self._step = step
        self._names: list[str] = []
        self._first = tf.Variable(-1, dtype=tf.int64, trainable=False, name="first_bad_step")
        self._parts: tf.Variable | None = None
        self._rate = tf.Variable(0.0, trainable=False, name="bad_learning_rate")

    def watch(self, outputs: StepOutputs) -> None:
        """Look at one update's outputs, inside the compiled function, after the step was counted."""
        self._names = sorted(outputs.losses)
        if self._parts is None:
            with tf.init_scope():
                self._parts = tf.Variable(tf.zeros([len(self._names)]), trainable=False, name="bad_losses")
        bad = tf.logical_and(
            tf.logical_not(tf.math.is_finite(outputs.losses[TOTAL_LOSS])), self._first.read_value() < 0
        )
        losses = tf.stack([tf.cast(outputs.losses[name], tf.float32) for name in self._names])
        self._parts.assign(tf.where(bad, losses, self._parts))
        self._rate.assign(tf.where(bad, outputs.learning_rate, self._rate))
        self._first.assign(tf.where(bad, self._step - 1, self._first))

    def check(self) -> None:
        """Wait for the device and stop the training if a loss was not finite.

        Raises:
            ModelError: naming the step, the losses at it, and what to do.
        """
        step = int(self._first.numpy())
        if step < 0 or self._parts is None:
            return
        parts = ", ".join(
            f"{name} {value:g}" for name, value in zip(self._names, self._parts.numpy(), strict=True)
        )
        raise ModelError(
            f"expected a finite loss, found {parts} at learning rate {self._rate.numpy():g}. Lower the"
            " learning rate or lengthen its warm-up, set train_config.gradient_clipping_by_norm (say 10), or"
            " look for wrong boxes in the examples. Checkpoints from before this step are kept.",
            where=f"training step {step}",
        )
