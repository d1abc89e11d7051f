"""Box coders, matchers and samplers against slow loops, goldens and numbers worked by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.parts import box_coders
from detection_core.parts.matchers import GreedyBipartiteMatcher, Matcher
from detection_core.parts.samplers import BalancedSampler
from tests.support.anchor_parts import FASTER, argmax_matcher, miner
from tests.support.batches import random_boxes
from tests.support.cases import cases, refused
from tests.support.golden_cases import cases_of

CASES = cases_of("detection_core/parts/box_coders", "box_coders")
UNSCALED = box_coders.FasterRcnnBoxCoder(y_scale=1.0, x_scale=1.0, height_scale=1.0, width_scale=1.0)
KEYPOINTS = box_coders.KeypointBoxCoder(num_keypoints=3, box_coder=FASTER)
MEAN_STDDEV = box_coders.MeanStddevBoxCoder(stddev=0.1)
SQUARE = box_coders.SquareBoxCoder(y_scale=10.0, x_scale=10.0, length_scale=5.0)


@cases(
    (FASTER, [0.2, 0.2, 0.6, 0.4], [0.0, 0.0, 0.4, 0.4], [5.0, 2.5, 0.0, -5 * math.log(2)]),
    (MEAN_STDDEV, [0.2, 0.3, 0.6, 0.5], [0.1, 0.3, 0.5, 0.7], [1, 0, 1, -2]),
    (SQUARE, [0.2, 0.2, 0.6, 0.3], [0.0, 0.0, 0.4, 0.4], [5, 1.25, -5 * math.log(2)]),
)
def test_hand_worked_codes(*, coder, box, anchor, code):
    np.testing.assert_allclose(coder.encode(np.float32([box]), np.float32([anchor])), [code], atol=1e-5)
    assert coder.code_size == len(code)


@cases(
    ("faster_rcnn_no_scale_factors", UNSCALED),
    ("keypoint_no_scale_factors", box_coders.KeypointBoxCoder(num_keypoints=3, box_coder=UNSCALED)),
    ("square_no_scale_factors", box_coders.SquareBoxCoder(y_scale=1.0, x_scale=1.0, length_scale=1.0)),
)
def test_codes_without_scales_are_the_reference_s(*, name, coder):
    case = CASES[name]
    given = [case.inputs[key] for key in ("boxes", "anchors", "keypoints") if key in case.inputs]
    np.testing.assert_allclose(coder.encode(*given), case.outputs["encoded"], rtol=1e-5, atol=1e-6)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_decoding_inverts_encoding(seed):
    rng = np.random.default_rng(seed)
    boxes, anchors = random_boxes(rng, 2, 9), random_boxes(rng, 9)
    for coder in (FASTER, MEAN_STDDEV):
        found = coder.decode(coder.encode(boxes, anchors), anchors)
        np.testing.assert_allclose(found, boxes, atol=2e-6, err_msg=type(coder).__name__)
    low = rng.uniform(0, 0.5, (3, 9, 2))
    squares = np.concatenate([low, low + rng.uniform(0.1, 0.4, (3, 9, 1))], axis=-1).astype(np.float32)
    np.testing.assert_allclose(SQUARE.decode(SQUARE.encode(squares, anchors), anchors), squares, atol=1e-5)
    keypoints = rng.uniform(0, 1, (2, 9, 3, 2)).astype(np.float32)
    codes = KEYPOINTS.encode(boxes, anchors, keypoints)
    assert codes.shape == (2, 9, KEYPOINTS.code_size)
    np.testing.assert_allclose(KEYPOINTS.decode(codes, anchors), boxes, atol=1e-5)
    np.testing.assert_allclose(KEYPOINTS.decode_keypoints(codes, anchors), keypoints, atol=1e-4)


def test_keypoints_are_needed():
    boxes = random_boxes(np.random.default_rng(0), 4)
    refused(ValueError, "keypoints", KEYPOINTS.encode, boxes, boxes)


UNKNOWN_SIZES = [tf.TensorSpec([None, None, None], tf.float32), tf.TensorSpec([None, None], tf.bool)]


def _slow_argmax(similarity, valid, matched, unmatched, lower, force):
    """One image, one anchor after the other."""
    rows, anchors = similarity.shape
    result = np.full(anchors, -1)
    for anchor in range(anchors):
        best = max(range(rows), key=lambda row: (similarity[row, anchor], -row)) if rows else -1
        if best < 0 or np.isinf(similarity[best, anchor]):
            continue
        value = similarity[best, anchor]
        between, below = (-2, -1) if lower else (-1, -2)
        result[anchor] = best if value >= matched else between if value >= unmatched else below
    if force:
        for row in reversed(range(rows)):
            if valid[row]:
                result[int(np.argmax(similarity[row]))] = row
    return result


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), lower=st.booleans(), force=st.booleans(), rows=st.integers(0, 5))
def test_argmax_equals_a_loop(seed, lower, force, rows):
    rng = np.random.default_rng(seed)
    # Few distinct values, so that ties are common.
    similarity = (rng.integers(0, 11, (3, rows, 12)) / 10).astype(np.float32)
    exists = rng.random((3, rows)) < 0.7
    similarity = np.where(exists[..., np.newaxis], similarity, -np.inf).astype(np.float32)
    valid = exists & (rng.random((3, rows)) < 0.7)
    found = argmax_matcher(0.5, 0.3, lower, force).match(tf.constant(similarity), tf.constant(valid))
    arguments = (np.float32(0.5), np.float32(0.3), lower, force)
    expected = [_slow_argmax(s, v, *arguments) for s, v in zip(similarity, valid, strict=True)]
    np.testing.assert_array_equal(found, expected)


def test_rows_unknown_until_run_and_padding_never_matches_even_without_thresholds():
    match = tf.function(argmax_matcher(0.5, 0.4).match, input_signature=UNKNOWN_SIZES)
    np.testing.assert_array_equal(match(tf.zeros([2, 0, 3]), tf.zeros([2, 0], tf.bool)), np.full((2, 3), -1))
    np.testing.assert_array_equal(match(tf.constant([[[0.6, 0.1]]]), tf.constant([[True]])), [[0, -1]])
    matcher = argmax_matcher(None, None)
    found = matcher.match(tf.fill([1, 2, 3], -float("inf")), tf.constant([[False, False]]))
    np.testing.assert_array_equal(found, [[-1, -1, -1]])


@cases(
    ({"matched": None, "unmatched": 0.3}, "matched_none_unmatched_given"),
    ({"matched": 0.3, "unmatched": 0.5}, "unmatched_above_matched"),
    ({"matched": 0.5, "unmatched": 0.5, "lower": False}, "equal_thresholds_and_not_negatives_lower"),
)
def test_thresholds_that_contradict(*, arguments, golden):
    goldens = cases_of("detection_core/parts/matchers", "matchers")
    assert goldens[f"argmax_constructor_{golden}"].error == "ValueError"
    with pytest.raises(ValueError, match="threshold"):
        argmax_matcher(**arguments)


class _Total(Matcher):
    """Gives each anchor the sum of all rows' similarities: no match, but it shows what comes in."""

    def match_rows(self, similarity_of, valid, anchors):
        total = sum(similarity_of(tf.constant(row)) for row in range(valid.shape[1]))
        assert total.shape[1] == int(anchors)
        return tf.cast(total, tf.int32)


def test_similarities_that_are_there_are_taken_row_by_row():
    similarity = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    found = _Total().match(similarity, np.ones([2, 3], bool))
    np.testing.assert_array_equal(found, similarity.sum(axis=1))


def _slow_bipartite(similarity, valid):
    result = np.full(similarity.shape[1], -1)
    rows = {row for row in range(len(similarity)) if valid[row]}
    while rows and (result == -1).any():
        free = np.flatnonzero(result == -1)
        row, anchor = max(((r, a) for r in rows for a in free), key=lambda pair: similarity[pair])
        result[anchor] = row
        rows.remove(row)
    return result


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(0, 5), anchors=st.integers(1, 6))
def test_bipartite_equals_a_loop(seed, rows, anchors):
    rng = np.random.default_rng(seed)
    similarity = rng.normal(size=(2, rows, anchors)).astype(np.float32)
    valid = rng.random((2, rows)) < 0.7
    found = GreedyBipartiteMatcher().match(tf.constant(similarity), tf.constant(valid))
    np.testing.assert_array_equal(
        found, [_slow_bipartite(s, v) for s, v in zip(similarity, valid, strict=True)]
    )


def test_as_a_graph_of_unknown_sizes():
    match = tf.function(GreedyBipartiteMatcher().match, input_signature=UNKNOWN_SIZES)
    similarity = tf.constant([[[0.9, 0.8, 0.1], [0.95, 0.2, 0.3]]])
    np.testing.assert_array_equal(match(similarity, tf.constant([[True, True]])), [[1, 0, -1]])
    np.testing.assert_array_equal(match(similarity[:, :0], tf.zeros([1, 0], tf.bool)), [[-1, -1, -1]])


SAMPLED = cases_of("detection_core/parts/targets", "samplers")


@cases(*SAMPLED.values())
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


def test_only_chosen_anchors_have_a_gradient():
    losses = tf.Variable([[0.9, 0.1, 0.8]])
    boxes = tf.constant([[[0.0, 0.0, 0.1, 0.1], [0.2, 0.2, 0.3, 0.3], [0.5, 0.5, 0.6, 0.6]]])
    mining = miner(num_hard_examples=2, max_negatives_per_positive=0)
    with tf.GradientTape() as tape:
        mined = mining.mine(losses, losses, boxes, tf.constant([[0, -1, -1]]))
    np.testing.assert_allclose(tape.gradient(mined.localization, losses), [[1, 0, 1]])
