"""One step of training, and the guard of its values."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.errors import ConfigError, ModelError
from detection_core.optimizers.optimization import Constant, Optimization
from detection_core.training import step as steps
from detection_core.training.guard import FiniteGuard, StepOutputs
from detection_core.training.loop_options import TrainOptions
from detection_core.training.step import TrainState, compile_steps, new_step, train_step
from tests.detection_core.training.runs import RATE, assert_equal, state_of
from tests.support.cases import cases, refused
from tests.support.tiny_model import TinyModel, make_dataset


def gradients_of(model, batch, regularized=True):
    with tf.GradientTape() as tape:
        losses = model.losses(batch, training=True)
        total = losses["Loss/total_loss"] - (0.0 if regularized else losses["Loss/regularization_loss"])
    return [g.numpy() for g in tape.gradient(total, model.network.trainable_variables)]


def stepped(model, replicas=1, **options):
    """Update a model once; return the state, what the step gave, and how much each trained variable moved."""
    (batch,) = make_dataset(0).take(1)
    before = {v.name: v.numpy() for v in model.trainable_variables}
    options = TrainOptions(num_steps=1, **options)
    state = state_of(model, options)
    outputs = train_step(state, options, replicas, batch)
    return state, outputs, {v.name: v.numpy() - before[v.name] for v in model.trainable_variables}


@cases(True, False)
def test_an_update_moves_the_weights_down_the_gradient(*, regularized):
    (batch,) = make_dataset(0).take(1)
    state, outputs, moved = stepped(TinyModel(), add_regularization_loss=regularized)
    expected = [-RATE * gradient for gradient in gradients_of(TinyModel(), batch, regularized)]
    assert_equal(moved.values(), expected, 1e-3, 1e-6)
    assert ("Loss/regularization_loss" in outputs.losses) == regularized
    parts = [v for name, v in outputs.losses.items() if name != "Loss/total_loss"]
    assert float(outputs.losses["Loss/total_loss"]) == pytest.approx(float(tf.add_n(parts)), rel=1e-5)
    assert float(outputs.learning_rate) == pytest.approx(RATE)
    assert int(state.step) == 1
    assert not outputs.scalars


def test_the_rate_that_is_told_is_the_one_applied():
    (batch,) = make_dataset(0).take(1)
    options = TrainOptions(num_steps=2)
    rate = Constant(learning_rate=RATE)
    optimizer = tf_keras.optimizers.legacy.RMSprop(learning_rate=rate, decay=0.5)
    state = TrainState(TinyModel(), Optimization(optimizer=optimizer), options, None)
    told = [float(train_step(state, options, 1, batch).learning_rate) for _ in range(3)]
    assert told == pytest.approx([RATE, RATE / 1.5, RATE / 2.0])


def _with_backbone():
    """A model whose stem, of a stride of 4, is its backbone."""
    model = TinyModel()
    for name in ("stem", "stem_bn"):
        model.network.get_layer(name)._name = f"backbone_{name}"
    return model


def test_the_backbone_has_a_learning_rate_of_its_own_and_frozen_parts_stay():
    plain, same, slow = (stepped(_with_backbone(), backbone_rate_decay=d)[2] for d in (1.0, 1.0, 0.5))
    for name, move in plain.items():
        np.testing.assert_allclose(same[name], move, atol=1e-7)
        np.testing.assert_allclose(slow[name], (0.5 if name.startswith("stem") else 1.0) * move, atol=1e-7)
    # The stem has a stride of 4.
    for count, expected in ((1, {"stem", "stem_bn", "head"}), (2, {"head"})):
        moved = stepped(_with_backbone(), freeze_backbone_stages=count)[2]
        assert {name.split("/")[0] for name, move in moved.items() if np.any(move)} == expected
    moved = stepped(TinyModel(), freeze_variables=("stem",))[2]
    assert {name for name, move in moved.items() if np.any(move)} == {"head/kernel:0", "head/bias:0"}


def test_replicas_share_the_loss_and_a_model_s_factor_comes_before_clipping():
    whole, share = (stepped(TinyModel(), replicas)[2].values() for replicas in (1, 4))
    assert_equal(whole, [4 * move for move in share], 1e-3, 1e-7)

    class Twice(TinyModel):
        def gradient_factor(self, images):
            return 0.5 * images

    (batch,) = make_dataset(0).take(1)
    moved = stepped(Twice())[2].values()
    assert_equal(moved, [-2.0 * RATE * g for g in gradients_of(TinyModel(), batch)], 1e-3, 1e-6)


def test_clipping_is_by_the_global_norm_after_the_bias_multiplier():
    options = TrainOptions(num_steps=1, gradient_clipping_by_norm=2.5, summarize_gradients=True)
    (kernel, bias), scalars = steps.shape_gradients(GRADIENTS, VARIABLES, options)
    np.testing.assert_allclose(kernel, [1.5, 0.0])
    np.testing.assert_allclose(bias, [2.0])
    norms = {name: float(value) for name, value in scalars.items()}
    assert norms == {"gradient_norm/a/kernel": 3.0, "gradient_norm/a/bias": 4.0, "gradient_norm/global": 5.0}
    options = TrainOptions(num_steps=1, bias_grad_multiplier=2.0)
    (kernel, bias), scalars = steps.shape_gradients(GRADIENTS, VARIABLES, options)
    np.testing.assert_allclose(kernel, [3.0, 0.0])
    np.testing.assert_allclose(bias, [8.0])
    assert scalars == {}
    losses = {"Loss/total_loss": tf.constant(3.0)}
    assert steps.counted_losses(losses, TrainOptions(num_steps=1, add_regularization_loss=False)) is losses


VARIABLES = [tf.Variable([1.0, 1.0], name="a/kernel"), tf.Variable([1.0], name="a/bias")]
GRADIENTS = [tf.constant([3.0, 0.0]), tf.constant([4.0])]


def test_a_variable_that_the_loss_does_not_use_is_named():
    class Idle(TinyModel):
        idle = tf.Variable(1.0, name="a/bias")

        @property
        def trainable_variables(self):
            return [*super().trainable_variables, self.idle]

    for parts in (1, 2):
        refused(ModelError, r"\['a/bias'\] \(1 in all\)", stepped, Idle(), gradient_accumulation_steps=parts)


def test_a_batch_in_parts_has_the_mean_of_their_gradients():
    options = TrainOptions(num_steps=1, gradient_accumulation_steps=3)
    (batch,) = make_dataset(0, batch_size=6).take(1)
    parts = [tf.nest.map_structure(lambda t, i=i: t[2 * i : 2 * i + 2], batch) for i in range(3)]
    model, twin = TinyModel(), TinyModel()
    before = [v.numpy() for v in twin.trainable_variables]
    parted = [(float(twin.losses(p, True)["Loss/total_loss"]), gradients_of(twin, p)) for p in parts]
    state = state_of(model, options)
    step = tf.function(lambda: train_step(state, options, 1, batch))
    assert float(step().losses["Loss/total_loss"]) == pytest.approx(np.mean([f[0] for f in parted]), rel=1e-5)
    means = [np.mean(gradients, axis=0) for gradients in zip(*(f[1] for f in parted), strict=True)]
    expected = [value - RATE * mean for value, mean in zip(before, means, strict=True)]
    assert_equal(model.trainable_variables, expected, 1e-5, 1e-6)
    follower = TinyModel()  # statistics of the normalisation follow part after part
    for part in parts:
        follower.losses(part, True)
    found, expected = ([v for v in m.variables if "moving" in v.name] for m in (model, follower))
    assert int(state.step) == 1 and len(found) == 2
    assert_equal(found, expected)
    options = dataclasses.replace(options, gradient_accumulation_steps=4)
    with pytest.raises(ConfigError, match="divides the 6 images of a replica, found 4"):
        train_step(state_of(TinyModel(), options), options, 1, batch)


@cases(1, 2)
def test_nothing_that_a_step_calls_is_translated(*, steps_per_call):
    """Translating Python to graphs takes as long as all else of the first step."""
    seen = []

    class Watched(TinyModel):
        def losses(self, batch, training):
            seen.append(tf.__internal__.autograph.control_status_ctx().status.name)
            return super().losses(batch, training)

    options = TrainOptions(num_steps=2, steps_per_call=steps_per_call)
    state = state_of(Watched(), options)
    update = compile_steps(state, options, lambda outputs: None)
    update(iter(make_dataset(0)), tf.constant(steps_per_call))
    assert int(state.step) == steps_per_call
    assert set(seen) == {"DISABLED"}


def watched(values, limit):
    step = new_step()
    guard = FiniteGuard(step, limit)

    @tf.function
    def update(box):
        step.assign_add(1)
        losses = {"Loss/localization_loss": box, "Loss/total_loss": box + 1.0}
        skipped = tf.cast(tf.logical_not(tf.math.is_finite(box)), tf.float32)
        given = {"losses": losses, "learning_rate": 0.5 * box, "skipped": skipped}
        guard.watch(StepOutputs(**given, scalars={}, histograms={}))

    for value in values:
        update(tf.constant(value))
    return guard


def test_bad_updates_up_to_the_limit_are_told_of_and_the_next_is_named_with_its_losses():
    guard = watched((1.0, 2.0, float("inf"), 3.0, float("nan")), limit=0)
    (found,) = guard.found()  # nothing is updated after it, so nothing is to be reported
    assert bool(guard.halted) and guard.total == 1 and not guard.found()
    refused(ModelError, r"training step 2: .*localization_loss inf, Loss/total_loss inf", guard.refuse, found)
    guard = watched([float("nan")] * 40, limit=100)
    assert [update.step for update in guard.found()] == list(range(24, 40)) and guard.total == 40
    guard = watched([float("inf")], limit=0)
    (found,) = guard.found()
    finite = type(found)(step=3, losses={"Loss/total_loss": 2.0}, learning_rate=0.1, is_last=True)
    with pytest.raises(ModelError, match="expected finite gradients, found Loss/total_loss 2 at learning"):
        guard.refuse(finite)
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
