"""Losses by hand-worked numbers and slow loops; the goldens are in tests/detection_core/builders."""

import dataclasses
import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

from detection_core.parts import losses
from detection_core.parts.losses import AnchorLosses, GiouLoss, IouLoss, L1Loss, L2Loss, SmoothL1Loss
from tests.support.cases import cases


def test_every_part_is_named_and_fixed():
    found = AnchorLosses(
        classification=losses.SigmoidLoss(),
        localization=SmoothL1Loss(delta=1.0),
        classification_weight=1.0,
        localization_weight=2.0,
        hard_example_miner=None,
        random_example_sampler=None,
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.localization_weight = 3.0
    with pytest.raises(TypeError):
        AnchorLosses(losses.SigmoidLoss(), SmoothL1Loss(delta=1.0), 1.0, 2.0, None, None)


def test_dice_of_perfect_and_opposite_maps_and_by_hand():
    target = np.float32([[[1], [1], [0]], [[0], [1], [1]]])
    ones = np.ones((2, 3, 1), np.float32)
    for squared in (False, True):
        loss = losses.DiceLoss(squared_normalization=squared)
        np.testing.assert_allclose(loss(200 * target - 100, target, ones), np.zeros((2, 1)), atol=1e-6)
        np.testing.assert_allclose(loss(100 - 200 * target, target, ones), np.ones((2, 1)), atol=1e-6)
    prediction, target = np.zeros((1, 4, 1), np.float32), np.float32([[[1], [1], [0], [0]]])
    found = losses.DiceLoss(squared_normalization=False)(prediction, target, np.ones((1, 4, 1), np.float32))
    np.testing.assert_allclose(found, [[1 - 2 * 1.0 / (2.0 + 2.0)]], rtol=1e-6)


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
    loss = losses.SigmoidFocalLoss(gamma=gamma, alpha=alpha, label_smoothing=smoothing)
    found = []
    for compute in (
        lambda: tf.reduce_sum(loss(prediction, tf.one_hot(columns, 4), weights[..., None]), axis=-1),
        lambda: loss.of_columns(prediction, columns, weights),
    ):
        with tf.GradientTape() as tape:
            tape.watch([prediction, weights])
            per_anchor = compute()
            total = tf.reduce_sum(per_anchor * factors)
        found.append((per_anchor, *tape.gradient(total, [prediction, weights])))
    for expected, closed in zip(*found, strict=True):
        np.testing.assert_allclose(closed, expected, rtol=2e-5, atol=2e-6)


def test_columns_without_objects_are_negatives_and_extreme_logits_stay_finite():
    loss = losses.SigmoidFocalLoss(gamma=2.0, alpha=0.25)
    prediction = tf.constant(np.random.default_rng(1).normal(0, 2, (1, 4, 3)), tf.float32)
    found = tf.function(loss.of_columns)(prediction, tf.fill([1, 4], -1), tf.ones([1, 4]))
    expected = tf.reduce_sum(loss(prediction, tf.zeros_like(prediction), tf.ones([1, 4, 1])), axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    prediction = tf.constant([[[1e4, -1e4], [1e4, -1e4]]])
    with tf.GradientTape() as tape:
        tape.watch(prediction)
        found = loss.of_columns(prediction, tf.constant([[0, 1]]), tf.ones([1, 2]))
    np.testing.assert_allclose(found, [[0.0, 1e4]], rtol=1e-6)  # 0.75 and 0.25 of 1e4
    np.testing.assert_allclose(tape.gradient(found, prediction), [[[0.0, 0.0], [0.75, -0.25]]], atol=1e-6)
    extreme, opposite = np.float32([[[1e4, -1e4]]]), np.float32([[[0.0, 1.0]]])
    assert np.isfinite(loss(extreme, opposite, np.ones((1, 1, 1), np.float32))).all()


def test_penalty_reduced_spares_the_neighbourhood_of_a_peak():
    loss = losses.PenaltyReducedFocalLoss(alpha=2.0, beta=4.0)
    prediction = np.zeros((1, 3, 1), np.float32)
    target = np.array([[[1.0], [0.8], [0.0]]], np.float32)
    peak, near, far = np.ravel(loss(prediction, target, np.ones((1, 3, 1), np.float32)))
    assert peak == pytest.approx(0.25 * math.log(2), rel=1e-5)
    assert near == pytest.approx(0.25 * math.log(2) * 0.2**4, rel=1e-4)
    assert far == pytest.approx(0.25 * math.log(2), rel=1e-5)


def test_iou_by_hand_and_only_giou_pulls_boxes_that_do_not_touch():
    same, weight = np.float32([[[0.1, 0.1, 0.5, 0.5]]]), np.float32([[2.0]])
    half, away = np.float32([[[0.1, 0.1, 0.5, 0.3]]]), tf.Variable([[[0.7, 0.7, 0.9, 0.9]]])
    enclosing, union = 0.64, 0.16 + 0.04
    for loss, far in ((IouLoss(), 2.0), (GiouLoss(), 2 * (1 + (enclosing - union) / enclosing))):
        assert loss.compares_boxes
        np.testing.assert_allclose(loss(same, same, weight), [[0.0]], atol=1e-6)
        np.testing.assert_allclose(loss(half, same, weight), [[1.0]], rtol=1e-5)
        with tf.GradientTape() as tape:
            value = loss(away, same, weight)
        np.testing.assert_allclose(value, [[far]], rtol=1e-5)
        assert bool(np.any(tape.gradient(value, away).numpy())) is isinstance(loss, GiouLoss)


def test_targets_that_are_no_numbers_cost_nothing():
    prediction, target = np.float32([1.0, 2.0]), np.float32([np.nan, 5.0])
    np.testing.assert_array_equal(losses.replace_nan_targets(prediction, target), [1.0, 5.0])


def _arrays(targets, width=3, weighed=1):
    """Predictions and targets [2, 5, width], and weights [2, 5, weighed], or [2, 5]."""
    rng = np.random.default_rng(0)
    drawn = {
        "binary": rng.integers(0, 2, (2, 5, width)),
        "fractions": rng.uniform(0, 1, (2, 5, width)),
        "normal": rng.normal(0, 2, (2, 5, width)),
    }[targets]
    weights = rng.uniform(0, 1, (2, 5, weighed) if weighed else (2, 5))
    return [array.astype(np.float32) for array in (rng.normal(0, 2, (2, 5, width)), drawn, weights)]


def _sigmoid(logits):
    return 1 / (1 + np.exp(-logits.astype(np.float64)))


def _softmax(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _cross_entropy(prediction, target):
    p = _sigmoid(prediction)
    return -target * np.log(p) - (1 - target) * np.log(1 - p)


@cases(*itertools.product((2.0, 1.5, 0.0), (0.25, 0.5, None)))
def test_focal_equals_its_formula(*, gamma, alpha):
    prediction, target, weights = _arrays("binary")
    p_true = np.where(target, _sigmoid(prediction), 1 - _sigmoid(prediction))
    balance = 1.0 if alpha is None else np.where(target, alpha, 1 - alpha)
    expected = -balance * (1 - p_true) ** gamma * np.log(p_true) * weights
    found = losses.SigmoidFocalLoss(gamma=gamma, alpha=alpha)(prediction, target, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def _smooth(distance, delta):
    return np.where(distance <= delta, distance**2 / 2, delta * distance - delta**2 / 2)


def _mixed(t, p, hard=False, alpha=0.3):
    return alpha * t + (1 - alpha) * (_sigmoid(p) > 0.5 if hard else _sigmoid(p))


def _bootstrapped(alpha, hard=False):
    return losses.BootstrappedSigmoidLoss(alpha=alpha, hard_bootstrap=hard)


@cases(
    (losses.SigmoidLoss(), lambda p, t, w: _cross_entropy(p, t) * w),
    (_bootstrapped(0.3), lambda p, t, w: _cross_entropy(p, _mixed(t, p)) * w),
    (_bootstrapped(0.3, hard=True), lambda p, t, w: _cross_entropy(p, _mixed(t, p, hard=True)) * w),
    # Full trust is plain cross entropy.
    (_bootstrapped(1.0), lambda p, t, w: _cross_entropy(p, t) * w),
    (SmoothL1Loss(delta=0.5), lambda p, t, w: _smooth(np.abs(p - t), 0.5).sum(-1) * w),
    (SmoothL1Loss(delta=1.0), lambda p, t, w: _smooth(np.abs(p - t), 1.0).sum(-1) * w),
    (SmoothL1Loss(delta=2.0), lambda p, t, w: _smooth(np.abs(p - t), 2.0).sum(-1) * w),
    (L1Loss(), lambda p, t, w: np.abs(p - t).sum(-1) * w),
    # The weight of L2 counts before the square, as it always did.
    (L2Loss(), lambda p, t, w: 0.5 * ((p - t) ** 2).sum(-1) * w**2),
)
def test_losses_equal_their_formulas(*, loss, formula):
    of_codes = isinstance(loss, SmoothL1Loss | L1Loss | L2Loss)
    given = _arrays("normal", 4, 0) if of_codes else _arrays("fractions")
    assert not getattr(loss, "compares_boxes", False)
    np.testing.assert_allclose(loss(*given), formula(*given), rtol=1e-4, atol=1e-5)


@cases(0.5, 1.0, 2.0)
def test_softmax_equals_its_formula(*, scale):
    prediction, logits, weights = _arrays("normal", 3, 3)
    for loss, compared, target in (
        (losses.SoftmaxLoss, _softmax(logits), _softmax(logits)),
        (losses.SoftmaxAgainstLogitsLoss, logits, _softmax(logits / scale)),
    ):
        expected = -(target * np.log(_softmax(prediction / scale))).sum(-1) * weights.mean(-1)
        found = loss(logit_scale=scale)(prediction, compared, weights)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
