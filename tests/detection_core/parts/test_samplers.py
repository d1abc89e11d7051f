"""Samplers against slow loops and golden counts."""

import itertools

import numpy as np
import tensorflow as tf

from detection_core.parts.samplers import BalancedSampler, MiningLoss
from tests.support.anchor_parts import miner
from tests.support.batches import random_boxes, slow_iou
from tests.support.cases import cases
from tests.support.golden_cases import cases_of

CASES = cases_of("detection_core/parts/targets", "samplers")


@cases(*CASES.values())
def test_golden_counts(*, case):
    params = case.params
    groups = [params["num_positives"], params["num_negatives"], params["num_ignored"]]
    kinds = np.repeat([0, 1, 2], groups)
    kinds = np.stack([np.random.default_rng(seed).permutation(kinds) for seed in range(5)])
    sampler = BalancedSampler(positive_fraction=params["positive_fraction"])
    drawn = sampler.sample(tf.constant(kinds < 2), tf.constant(kinds == 0), params["batch_size"]).numpy()
    counts = {tuple(int((kinds[i][drawn[i]] == kind).sum()) for kind in range(3)) for i in range(5)}
    assert counts == {tuple(outcome) for outcome in case.facts["outcomes_pos_neg_ignored"]}


def test_without_a_size_all_positives_and_their_share_of_negatives_at_random():
    positive = tf.constant([[True] * 5 + [False] * 95, [False] * 100])
    drawn = BalancedSampler(positive_fraction=0.25).sample(tf.ones([2, 100], tf.bool), positive).numpy()
    assert drawn[0, :5].all() and drawn[0, 5:].sum() == 15 and not drawn[1].any()
    positive, candidates = tf.zeros([1, 1000], tf.bool), tf.ones([1, 1000], tf.bool)
    sampler = BalancedSampler(positive_fraction=0.5)
    first, second = (sampler.sample(candidates, positive, 100).numpy() for _ in range(2))
    assert first.sum() == second.sum() == 100
    assert (first != second).any()


def _slow(hardness, boxes, matched, options):
    chosen = []
    for anchor in np.argsort(-hardness, kind="stable"):
        if len(chosen) == (options.num_hard_examples or len(hardness)):
            break
        if all(slow_iou(boxes[anchor], boxes[other]) <= options.iou_threshold for other in chosen):
            chosen.append(anchor)
    if not options.max_negatives_per_positive:
        return set(chosen)
    positives = sum(matched[anchor] >= 0 for anchor in chosen)
    allowed = max(options.min_negatives_per_image, options.max_negatives_per_positive * positives)
    kept, negatives = set(), 0
    for anchor in chosen:
        negatives += matched[anchor] == -1
        if matched[anchor] >= 0 or negatives <= allowed:
            kept.add(anchor)
    return kept


@cases(
    *itertools.product([{}, {"max_negatives_per_positive": 0}, {"num_hard_examples": 0}], list(MiningLoss))
)
def test_equals_a_loop(*, changes, loss):
    mining = miner(loss=loss, **changes)
    rng = np.random.default_rng(0)
    boxes = random_boxes(rng, 3, 20, high=0.5, sides=(0.1, 0.5))
    localization, classification = rng.uniform(0, 1, (2, 3, 20)).astype(np.float32)
    matched = rng.integers(-2, 2, (3, 20)).astype(np.int32)
    parts = {
        MiningLoss.LOCALIZATION: 0.5 * localization,
        MiningLoss.CLASSIFICATION: 2.0 * classification,
        MiningLoss.BOTH: 0.5 * localization + 2.0 * classification,
    }
    expected = np.zeros((3, 20), bool)
    for image in range(3):
        for anchor in _slow(parts[loss][image], boxes[image], matched[image], mining):
            expected[image, anchor] = True
    np.testing.assert_array_equal(mining.select(localization, classification, boxes, matched), expected)
    mined = mining.mine(localization, classification, boxes, matched)
    np.testing.assert_allclose(mined.localization, localization[expected].sum(), rtol=1e-5)
    np.testing.assert_allclose(mined.classification, classification[expected].sum(), rtol=1e-5)


def test_only_chosen_anchors_have_a_gradient():
    losses = tf.Variable([[0.9, 0.1, 0.8]])
    boxes = tf.constant([[[0.0, 0.0, 0.1, 0.1], [0.2, 0.2, 0.3, 0.3], [0.5, 0.5, 0.6, 0.6]]])
    mining = miner(num_hard_examples=2, max_negatives_per_positive=0)
    with tf.GradientTape() as tape:
        mined = mining.mine(losses, losses, boxes, tf.constant([[0, -1, -1]]))
    np.testing.assert_allclose(tape.gradient(mined.localization, losses), [[1, 0, 1]])
