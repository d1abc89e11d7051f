import math

import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

from detection_core.detectors.parts.losses.focal import PenaltyReducedFocalLoss, SigmoidFocalLoss
from tests.support.cases import cases


def _arrays(seed):
    rng = np.random.default_rng(seed)
    prediction = rng.normal(0, 2, (2, 5, 3)).astype(np.float32)
    target = rng.integers(0, 2, (2, 5, 3)).astype(np.float32)
    weights = rng.uniform(0, 1, (2, 5, 1)).astype(np.float32)
    return prediction, target, weights


@cases((2.0, 0.25), (1.5, 0.5), (0.0, None), (2.0, None))
def test_focal_equals_a_loop(*, gamma, alpha):
    prediction, target, weights = _arrays(0)
    expected = np.zeros_like(prediction)
    for index in np.ndindex(prediction.shape):
        p = 1 / (1 + math.exp(-prediction[index]))
        p_true = p if target[index] else 1 - p
        balance = 1.0 if alpha is None else (alpha if target[index] else 1 - alpha)
        expected[index] = -balance * (1 - p_true) ** gamma * math.log(p_true) * weights[index[0], index[1], 0]
    found = SigmoidFocalLoss(gamma=gamma, alpha=alpha)(prediction, target, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_focal_is_finite_for_extreme_logits():
    prediction = np.array([[[1e4, -1e4]]], np.float32)
    found = SigmoidFocalLoss(gamma=2.0, alpha=0.25)(
        prediction, 1 - np.sign(np.maximum(prediction, 0)), np.ones((1, 1, 1), np.float32)
    )
    assert np.all(np.isfinite(found))


@settings(max_examples=40, deadline=None)
@given(
    gamma=st.sampled_from([0.0, 1.5, 2.0]),
    alpha=st.sampled_from([None, 0.0, 0.25, 1.0]),
    smoothing=st.sampled_from([0.0, 0.1]),
    columns=st.lists(st.integers(-1, 3), min_size=6, max_size=6),
    shift=st.floats(-12.0, 12.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_columns_have_the_loss_and_the_gradient_of_their_one_hot_targets(
    gamma, alpha, smoothing, columns, shift, seed
):
    rng = np.random.default_rng(seed)
    prediction = tf.constant(rng.normal(shift, 3, (2, 3, 4)), tf.float32)
    weights = tf.constant(rng.choice([0.0, 0.5, 1.0], (2, 3)), tf.float32)
    factors = tf.constant(rng.normal(0, 1, (2, 3)), tf.float32)
    columns = tf.reshape(columns, [2, 3])
    loss = SigmoidFocalLoss(gamma=gamma, alpha=alpha, label_smoothing=smoothing)

    def of_one_hot():
        return tf.reduce_sum(loss(prediction, tf.one_hot(columns, 4), weights[..., None]), axis=-1)

    def of_columns():
        return loss.of_columns(prediction, columns, weights)

    found = []
    for compute in (of_one_hot, of_columns):
        with tf.GradientTape() as tape:
            tape.watch([prediction, weights])
            per_anchor = compute()
            total = tf.reduce_sum(per_anchor * factors)
        found.append((per_anchor, *tape.gradient(total, [prediction, weights])))
    for expected, closed in zip(*found, strict=True):
        np.testing.assert_allclose(closed, expected, rtol=2e-5, atol=2e-6)


def test_columns_of_no_anchor_with_an_object_are_all_negatives():
    prediction = tf.constant(np.random.default_rng(1).normal(0, 2, (1, 4, 3)), tf.float32)
    loss = SigmoidFocalLoss(gamma=2.0, alpha=0.25)
    found = tf.function(loss.of_columns)(prediction, tf.fill([1, 4], -1), tf.ones([1, 4]))
    expected = tf.reduce_sum(loss(prediction, tf.zeros_like(prediction), tf.ones([1, 4, 1])), axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_columns_are_finite_for_extreme_logits():
    prediction = tf.constant([[[1e4, -1e4], [1e4, -1e4]]])
    loss = SigmoidFocalLoss(gamma=2.0, alpha=0.25)
    with tf.GradientTape() as tape:
        tape.watch(prediction)
        found = loss.of_columns(prediction, tf.constant([[0, 1]]), tf.ones([1, 2]))
    np.testing.assert_allclose(found, [[0.0, 1e4]], rtol=1e-6)  # 0.75 and 0.25 of 1e4
    np.testing.assert_allclose(tape.gradient(found, prediction), [[[0.0, 0.0], [0.75, -0.25]]], atol=1e-6)


def test_penalty_reduced_spares_the_neighbourhood_of_a_peak():
    loss = PenaltyReducedFocalLoss(alpha=2.0, beta=4.0)
    prediction = np.zeros((1, 3, 1), np.float32)
    target = np.array([[[1.0], [0.8], [0.0]]], np.float32)
    peak, near, far = np.ravel(loss(prediction, target, np.ones((1, 3, 1), np.float32)))
    assert peak == pytest.approx(0.25 * math.log(2), rel=1e-5)
    assert near == pytest.approx(0.25 * math.log(2) * 0.2**4, rel=1e-4)
    assert far == pytest.approx(0.25 * math.log(2), rel=1e-5)
