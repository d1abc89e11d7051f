import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.detectors.parts.matchers.bipartite import GreedyBipartiteMatcher


def _slow(similarity, valid):
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
def test_equals_a_loop(seed, rows, anchors):
    rng = np.random.default_rng(seed)
    similarity = rng.normal(size=(2, rows, anchors)).astype(np.float32)
    valid = rng.random((2, rows)) < 0.7
    found = GreedyBipartiteMatcher().match(tf.constant(similarity), tf.constant(valid))
    np.testing.assert_array_equal(found, [_slow(s, v) for s, v in zip(similarity, valid, strict=True)])


def test_as_a_graph_of_unknown_sizes():
    @tf.function(
        input_signature=[tf.TensorSpec([None, None, None], tf.float32), tf.TensorSpec([None, None], tf.bool)]
    )
    def match(similarity, valid):
        return GreedyBipartiteMatcher().match(similarity, valid)

    similarity = tf.constant([[[0.9, 0.8, 0.1], [0.95, 0.2, 0.3]]])
    np.testing.assert_array_equal(match(similarity, tf.constant([[True, True]])), [[1, 0, -1]])
    np.testing.assert_array_equal(match(similarity[:, :0], tf.zeros([1, 0], tf.bool)), [[-1, -1, -1]])
