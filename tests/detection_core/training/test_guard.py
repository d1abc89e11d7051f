"""The guard remembers the first bad update, inside a compiled function."""

from __future__ import annotations

import pytest
import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.training.guard import FiniteGuard
from detection_core.training.step import StepOutputs, new_step


def test_the_first_bad_update_is_named_with_its_losses() -> None:
    step = new_step()
    guard = FiniteGuard(step)

    @tf.function
    def update(box: tf.Tensor) -> None:
        step.assign_add(1)
        losses = {"Loss/localization_loss": box, "Loss/total_loss": box + 1.0}
        guard.watch(StepOutputs(losses=losses, learning_rate=0.5 * box, scalars={}))

    guard.check()
    for value in (1.0, 2.0, float("inf"), 3.0, float("nan")):
        update(tf.constant(value))
        if value <= 2.0:
            guard.check()
    with pytest.raises(ModelError, match=r"training step 2: .*localization_loss inf, Loss/total_loss inf"):
        guard.check()
