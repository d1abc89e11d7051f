"""Find an image's best candidates of all classes without sorting every score."""

import math
from typing import NamedTuple

import tensorflow as tf

# Score of a row without a candidate; every real score is larger.
NO_CANDIDATE = -1.0


class Leading(NamedTuple):
    """The first N candidates of each image by falling score, then class, then anchor.

    Attributes:
        anchors: int32 [B, M], rising: the candidates' anchors, perhaps with others.
        scores: float32 [B, N], NO_CANDIDATE after the last candidate.
        places: int32 [B, N], class * M + index into `anchors`.
        complete: bool [B], whether the image has no other candidates.
    """

    anchors: tf.Tensor
    scores: tf.Tensor
    places: tf.Tensor
    complete: tf.Tensor


def leading_candidates(
    scores: tf.Tensor, score_threshold: float, most_anchors: int, most_candidates: int
) -> Leading:
    """Find the first candidates of each image: an exact prefix of the order.

    An anchor's best score bounds its others. So a score above the best of the M-th anchor belongs to one of
    these M anchors. Only their scores are sorted.

    Args:
        scores: float32 [B, A, C].
        score_threshold: candidates have a score above it; at least 0.
        most_anchors: upper bound of M.
        most_candidates: upper bound of N.
    """
    batch, anchors, classes = tf.unstack(tf.shape(scores))
    size = tf.minimum(most_anchors, anchors)
    best = tf.reduce_max(scores, axis=-1)
    # NaN hides an anchor's other scores, so these anchors are included.
    best = tf.where(tf.math.is_nan(best), math.inf, best)
    found = tf.math.top_k(tf.where(best > score_threshold, best, NO_CANDIDATE), size)
    last = found.values[:, -1:]
    all_anchors = (last == NO_CANDIDATE) | (size == anchors)
    # A score equal to the last anchor's best may also occur on other anchors, with a lower class.
    bound = tf.where(all_anchors, score_threshold, last)
    leading = tf.sort(found.indices)
    near = tf.transpose(tf.gather(scores, leading, batch_dims=1), [0, 2, 1])
    near = tf.where(near > bound[:, tf.newaxis], near, NO_CANDIDATE)
    number = tf.minimum(most_candidates, classes * size)
    first = tf.math.top_k(tf.reshape(near, [batch, -1]), number)
    all_candidates = (first.values[:, -1:] == NO_CANDIDATE) | (number == classes * size)
    complete = tf.squeeze(all_anchors & all_candidates, axis=1)
    return Leading(leading, first.values, first.indices, complete)
