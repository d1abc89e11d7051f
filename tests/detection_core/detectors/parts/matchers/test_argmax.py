import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.detectors.parts.matchers.argmax import ArgMaxMatcher, ArgMaxMatcherOptions
from tests.support.cases import cases
from tests.support.golden_cases import load_cases


def _matcher(matched=0.5, unmatched=0.4, lower=True, force=True):
    return ArgMaxMatcher(
        ArgMaxMatcherOptions(
            matched_threshold=matched,
            unmatched_threshold=unmatched,
            negatives_lower_than_unmatched=lower,
            force_match_for_each_row=force,
        )
    )


def _slow(similarity, valid, matched, unmatched, lower, force):
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
def test_equals_a_loop(seed, lower, force, rows):
    rng = np.random.default_rng(seed)
    # Few distinct values, so that ties are common.
    similarity = (rng.integers(0, 11, (3, rows, 12)) / 10).astype(np.float32)
    exists = rng.random((3, rows)) < 0.7
    similarity = np.where(exists[..., np.newaxis], similarity, -np.inf).astype(np.float32)
    valid = exists & (rng.random((3, rows)) < 0.7)
    found = _matcher(0.5, 0.3, lower, force).match(tf.constant(similarity), tf.constant(valid))
    arguments = (np.float32(0.5), np.float32(0.3), lower, force)
    expected = [_slow(s, v, *arguments) for s, v in zip(similarity, valid, strict=True)]
    np.testing.assert_array_equal(found, expected)


def test_rows_unknown_until_run():
    @tf.function(
        input_signature=[tf.TensorSpec([None, None, None], tf.float32), tf.TensorSpec([None, None], tf.bool)]
    )
    def match(similarity, valid):
        return _matcher().match(similarity, valid)

    np.testing.assert_array_equal(match(tf.zeros([2, 0, 3]), tf.zeros([2, 0], tf.bool)), np.full((2, 3), -1))
    np.testing.assert_array_equal(match(tf.constant([[[0.6, 0.1]]]), tf.constant([[True]])), [[0, -1]])


def test_padding_never_matches_even_without_thresholds():
    matcher = _matcher(matched=None, unmatched=None, force=True)
    found = matcher.match(tf.fill([1, 2, 3], -float("inf")), tf.constant([[False, False]]))
    np.testing.assert_array_equal(found, [[-1, -1, -1]])


@cases(
    ({"matched": None, "unmatched": 0.3}, "argmax_constructor_matched_none_unmatched_given"),
    ({"matched": 0.3, "unmatched": 0.5}, "argmax_constructor_unmatched_above_matched"),
    (
        {"matched": 0.5, "unmatched": 0.5, "lower": False},
        "argmax_constructor_equal_thresholds_and_not_negatives_lower",
    ),
)
def test_thresholds_that_contradict(*, arguments, golden):
    assert load_cases(__file__, "matchers")[golden].error == "ValueError"
    with pytest.raises(ValueError, match="threshold"):
        _matcher(**arguments)
