"""Losses of columns and boxes that the goldens in tests/detection_core/builders do not compare."""

import dataclasses

import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

from detection_core.builders.detector_parts import LOCALIZATION_LOSSES
from detection_core.parts import losses
from detection_core.parts.losses import AnchorLosses, SmoothL1Loss


def test_every_part_is_named_and_fixed():
    found = AnchorLosses(
        classification=losses.SigmoidLoss(), localization=SmoothL1Loss(delta=1.0), classification_weight=1.0,
        localization_weight=2.0, hard_example_miner=None, random_example_sampler=None,
    )  # fmt: skip
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.localization_weight = 3.0
    with pytest.raises(TypeError):
        AnchorLosses(losses.SigmoidLoss(), SmoothL1Loss(delta=1.0), 1.0, 2.0, None, None)


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


def test_iou_by_hand_and_only_giou_pulls_boxes_that_do_not_touch():
    same, weight = np.float32([[[0.1, 0.1, 0.5, 0.5]]]), np.float32([[2.0]])
    half, away = np.float32([[[0.1, 0.1, 0.5, 0.3]]]), tf.Variable([[[0.7, 0.7, 0.9, 0.9]]])
    enclosing, union = 0.64, 0.16 + 0.04
    for name, far in (("iou", 2.0), ("giou", 2 * (1 + (enclosing - union) / enclosing))):
        loss = LOCALIZATION_LOSSES[f"weighted_{name}"](None)
        assert loss.compares_boxes
        np.testing.assert_allclose(loss(same, same, weight), [[0.0]], atol=1e-6)
        np.testing.assert_allclose(loss(half, same, weight), [[1.0]], rtol=1e-5)
        with tf.GradientTape() as tape:
            value = loss(away, same, weight)
        np.testing.assert_allclose(value, [[far]], rtol=1e-5)
        assert bool(np.any(tape.gradient(value, away).numpy())) is (name == "giou")


def test_targets_that_are_no_numbers_cost_nothing():
    prediction, target = np.float32([1.0, 2.0]), np.float32([np.nan, 5.0])
    np.testing.assert_array_equal(losses.replace_nan_targets(prediction, target), [1.0, 5.0])
