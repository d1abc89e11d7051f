"""The guard remembers updates that were left out, inside a compiled function."""

import pytest
import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.training.guard import FiniteGuard
from detection_core.training.step import new_step
from detection_core.training.step_outputs import StepOutputs


def watched(values, limit):
    step = new_step()
    guard = FiniteGuard(step, limit)

    @tf.function
    def update(box):
        step.assign_add(1)
        losses = {"Loss/localization_loss": box, "Loss/total_loss": box + 1.0}
        skipped = tf.cast(tf.logical_not(tf.math.is_finite(box)), tf.float32)
        guard.watch(
            StepOutputs(losses=losses, learning_rate=0.5 * box, scalars={}, skipped=skipped, histograms={})
        )

    for value in values:
        update(tf.constant(value))
    return guard


def test_the_first_bad_update_is_named_with_its_losses_and_of_many_the_last():
    guard = watched((1.0, 2.0, float("inf"), 3.0, float("nan")), limit=0)
    (found,) = guard.found()  # nothing is updated after it, so that nothing is to be told of
    assert bool(guard.halted) and guard.total == 1 and not guard.found()
    with pytest.raises(ModelError, match=r"training step 2: .*localization_loss inf, Loss/total_loss inf"):
        guard.refuse(found)
    guard = watched([float("nan")] * 40, limit=100)
    assert [update.step for update in guard.found()] == list(range(24, 40))
    assert guard.total == 40
    guard = watched([float("inf")], limit=0)
    (found,) = guard.found()
    finite = type(found)(step=3, losses={"Loss/total_loss": 2.0}, learning_rate=0.1, is_last=True)
    with pytest.raises(ModelError, match="expected finite gradients, found Loss/total_loss 2 at learning"):
        guard.refuse(finite)


def test_updates_up_to_the_limit_are_told_of_and_the_next_stops():
    nan = float("nan")
    guard = watched((nan, 1.0, nan), limit=2)
    found = guard.found()
    assert [update.step for update in found] == [0, 2] and not bool(guard.halted)
    for update in found:
        guard.refuse(update)
    guard = watched((nan, 1.0, nan, nan, 2.0), limit=2)
    *before, last = guard.found()
    assert [u.is_last for u in before] == [False, False] and last.step == 3
    with pytest.raises(ModelError, match=r"step 3: .*after 2 updates that were left out.* kept\. Where\."):
        guard.refuse(last, " Where.")
