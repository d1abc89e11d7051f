"""The first candidates of an image, those of all classes together, without sorting all of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

# Score of a row that holds no candidate; every real score is larger.
NO_CANDIDATE = -1.0


class Leading(NamedTuple):
    """The first N candidates of each image by falling score, then class, then anchor.

    Attributes:
        anchors: int32 [B, M], rising: anchors that have them, and perhaps others.
        scores: float32 [B, N], NO_CANDIDATE in the rows after the last one.
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
    """Find the first candidates of each image: all that come before some point of the order, and no others.

    An anchor's best score bounds its others. So what exceeds the best score of the last of M anchors is on
    these M, and only their scores are sorted.

    Args:
        scores: float32 [B, A, C].
        score_threshold: candidates have a score above it; at least 0.
        most_anchors: M, at most.
        most_candidates: N, at most.
    """
    batch, anchors, classes = tf.unstack(tf.shape(scores))
    size = tf.minimum(most_anchors, anchors)
    best = tf.reduce_max(scores, axis=-1)
    # What is not a number hides the other scores of its anchor, so these are looked at.
    best = tf.where(tf.math.is_nan(best), math.inf, best)
    found = tf.math.top_k(tf.where(best > score_threshold, best, NO_CANDIDATE), size)
    last = found.values[:, -1:]
    all_anchors = (last == NO_CANDIDATE) | (size == anchors)
    # A candidate with the last anchor's best score may also be elsewhere, and there of a lower class.
    bound = tf.where(all_anchors, score_threshold, last)
    leading = tf.sort(found.indices)
    near = tf.transpose(tf.gather(scores, leading, batch_dims=1), [0, 2, 1])
    near = tf.where(near > bound[:, tf.newaxis], near, NO_CANDIDATE)
    number = tf.minimum(most_candidates, classes * size)
    first = tf.math.top_k(tf.reshape(near, [batch, -1]), number)
    all_candidates = (first.values[:, -1:] == NO_CANDIDATE) | (number == classes * size)
    complete = tf.squeeze(all_anchors & all_candidates, axis=1)
    return Leading(leading, first.values, first.indices, complete)
