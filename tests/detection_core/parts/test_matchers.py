"""Matchers against slow loops."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.parts.matchers import GreedyBipartiteMatcher, Matcher
from tests.support.anchor_parts import argmax_matcher
from tests.support.cases import cases
from tests.support.golden_cases import cases_of

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
