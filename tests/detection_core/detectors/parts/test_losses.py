"""Losses by hand-worked numbers and slow loops; the goldens are in tests/detection_core/builders."""

import dataclasses
import math

import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

from detection_core.detectors.parts.losses import masking
from detection_core.detectors.parts.losses.anchor_losses import AnchorLosses
from detection_core.detectors.parts.losses.dice import DiceLoss
from detection_core.detectors.parts.losses.focal import PenaltyReducedFocalLoss, SigmoidFocalLoss
from detection_core.detectors.parts.losses.iou import GiouLoss, IouLoss
from detection_core.detectors.parts.losses.sigmoid import BootstrappedSigmoidLoss, SigmoidLoss
from detection_core.detectors.parts.losses.smooth_l1 import L1Loss, L2Loss, SmoothL1Loss
from detection_core.detectors.parts.losses.softmax import SoftmaxAgainstLogitsLoss, SoftmaxLoss
from tests.support.cases import cases


def test_every_part_is_named_and_fixed():
    losses = AnchorLosses(
        classification=SigmoidLoss(),
        localization=SmoothL1Loss(delta=1.0),
        classification_weight=1.0,
        localization_weight=2.0,
        hard_example_miner=None,
        random_example_sampler=None,
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        losses.localization_weight = 3.0
    with pytest.raises(TypeError):
        AnchorLosses(SigmoidLoss(), SmoothL1Loss(delta=1.0), 1.0, 2.0, None, None)


@cases(False, True)
def test_perfect_and_opposite_maps(*, squared):
    target = np.float32([[[1], [1], [0]], [[0], [1], [1]]])
    loss = DiceLoss(squared_normalization=squared)
    ones = np.ones((2, 3, 1), np.float32)
    np.testing.assert_allclose(loss(200 * target - 100, target, ones), np.zeros((2, 1)), atol=1e-6)
    np.testing.assert_allclose(loss(100 - 200 * target, target, ones), np.ones((2, 1)), atol=1e-6)


def test_dice_by_hand():
    prediction, target = np.zeros((1, 4, 1), np.float32), np.float32([[[1], [1], [0], [0]]])
    found = DiceLoss(squared_normalization=False)(prediction, target, np.ones((1, 4, 1), np.float32))
    np.testing.assert_allclose(found, [[1 - 2 * 1.0 / (2.0 + 2.0)]], rtol=1e-6)


def _arrays_focal(seed):
    rng = np.random.default_rng(seed)
    prediction = rng.normal(0, 2, (2, 5, 3)).astype(np.float32)
    target = rng.integers(0, 2, (2, 5, 3)).astype(np.float32)
    weights = rng.uniform(0, 1, (2, 5, 1)).astype(np.float32)
    return prediction, target, weights


@cases((2.0, 0.25), (1.5, 0.5), (0.0, None), (2.0, None))
def test_focal_equals_a_loop(*, gamma, alpha):
    prediction, target, weights = _arrays_focal(0)
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


SAME = np.float32([[[0.1, 0.1, 0.5, 0.5]]])
HALF = np.float32([[[0.1, 0.1, 0.5, 0.3]]])
AWAY = np.float32([[[0.7, 0.7, 0.9, 0.9]]])
WEIGHT = np.float32([[2.0]])


def test_iou_by_hand():
    for loss in (IouLoss(), GiouLoss()):
        assert loss.compares_boxes
        np.testing.assert_allclose(loss(SAME, SAME, WEIGHT), [[0.0]], atol=1e-6)
        np.testing.assert_allclose(loss(HALF, SAME, WEIGHT), [[1.0]], rtol=1e-5)
    np.testing.assert_allclose(IouLoss()(AWAY, SAME, WEIGHT), [[2.0]], rtol=1e-6)
    enclosing, union = 0.64, 0.16 + 0.04
    np.testing.assert_allclose(
        GiouLoss()(AWAY, SAME, WEIGHT), [[2 * (1 + (enclosing - union) / enclosing)]], rtol=1e-5
    )


def test_only_giou_pulls_boxes_that_do_not_touch():
    boxes = tf.Variable(AWAY)
    for loss, pulls in ((IouLoss(), False), (GiouLoss(), True)):
        with tf.GradientTape() as tape:
            value = loss(boxes, SAME, WEIGHT)
        assert bool(np.any(tape.gradient(value, boxes).numpy())) is pulls


def test_targets_that_are_no_numbers_cost_nothing():
    prediction, target = np.float32([1.0, 2.0]), np.float32([np.nan, 5.0])
    np.testing.assert_array_equal(masking.replace_nan_targets(prediction, target), [1.0, 5.0])


def _arrays_sigmoid():
    rng = np.random.default_rng(0)
    prediction, target = rng.normal(0, 3, (2, 4, 3)), rng.uniform(0, 1, (2, 4, 3))
    return [array.astype(np.float32) for array in (prediction, target, rng.uniform(0, 1, (2, 4, 1)))]


def _cross_entropy(prediction, target):
    p = 1 / (1 + np.exp(-prediction.astype(np.float64)))
    return -target * np.log(p) - (1 - target) * np.log(1 - p)


def test_sigmoid_equals_the_formula():
    prediction, target, weights = _arrays_sigmoid()
    expected = _cross_entropy(prediction, target) * weights
    np.testing.assert_allclose(SigmoidLoss()(prediction, target, weights), expected, rtol=1e-4, atol=1e-6)


@cases(False, True)
def test_bootstrapped_equals_the_formula(*, hard):
    prediction, target, weights = _arrays_sigmoid()
    p = 1 / (1 + np.exp(-prediction))
    mixed = 0.3 * target + 0.7 * (p > 0.5 if hard else p)
    loss = BootstrappedSigmoidLoss(alpha=0.3, hard_bootstrap=hard)
    expected = _cross_entropy(prediction, mixed) * weights
    np.testing.assert_allclose(loss(prediction, target, weights), expected, rtol=1e-4, atol=1e-5)


def test_full_trust_is_plain_cross_entropy():
    arrays = _arrays_sigmoid()
    loss = BootstrappedSigmoidLoss(alpha=1.0, hard_bootstrap=False)
    np.testing.assert_allclose(loss(*arrays), SigmoidLoss()(*arrays), rtol=1e-5)


def _arrays_smooth_l1():
    rng = np.random.default_rng(0)
    shapes = ((2, 5, 4), (2, 5, 4), (2, 5))
    return [rng.normal(0, 1, shape).astype(np.float32) for shape in shapes]


@cases(0.5, 1.0, 2.0)
def test_smooth_l1_equals_a_loop(*, delta):
    prediction, target, weights = _arrays_smooth_l1()
    expected = np.zeros((2, 5))
    for image, anchor, place in np.ndindex(2, 5, 4):
        distance = abs(float(prediction[image, anchor, place] - target[image, anchor, place]))
        near = distance <= delta
        loss = distance**2 / 2 if near else delta * distance - delta**2 / 2
        expected[image, anchor] += loss * weights[image, anchor]
    found = SmoothL1Loss(delta=delta)(prediction, target, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_l1_and_l2_equal_their_formulas():
    prediction, target, weights = _arrays_smooth_l1()
    difference = prediction - target
    np.testing.assert_allclose(
        L1Loss()(prediction, target, weights), np.abs(difference).sum(-1) * weights, rtol=1e-4, atol=1e-6
    )
    # The weight of L2 counts before the square, as it always did.
    expected = 0.5 * (difference**2).sum(-1) * weights**2
    np.testing.assert_allclose(L2Loss()(prediction, target, weights), expected, rtol=1e-4, atol=1e-6)


def test_all_compare_codes():
    assert not any(loss.compares_boxes for loss in (L1Loss(), L2Loss(), SmoothL1Loss(delta=1.0)))


def _softmax(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _arrays_softmax():
    rng = np.random.default_rng(0)
    return [rng.normal(0, 2, shape).astype(np.float32) for shape in ((2, 4, 3), (2, 4, 3), (2, 4, 3))]


@cases(0.5, 1.0, 2.0)
def test_softmax_equals_the_formula(*, scale):
    prediction, logits, weights = _arrays_softmax()
    target = _softmax(logits)
    expected = -(target * np.log(_softmax(prediction / scale))).sum(-1) * weights.mean(-1)
    found = SoftmaxLoss(logit_scale=scale)(prediction, target, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    target = _softmax(logits / scale)
    expected = -(target * np.log(_softmax(prediction / scale))).sum(-1) * weights.mean(-1)
    found = SoftmaxAgainstLogitsLoss(logit_scale=scale)(prediction, logits, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
