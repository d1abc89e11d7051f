from __future__ import annotations

import numpy as np
import tensorflow as tf

from detection_core.ops.objects import keep_objects
from detection_core.structures import GroundTruth

TRUTH = GroundTruth(
    boxes=tf.reshape(tf.range(12.0), [3, 4]),
    classes=tf.constant([5, 6, 7]),
    weights=tf.constant([0.5, 0.6, 0.7]),
    is_crowd=tf.constant([True, False, True]),
    area=tf.constant([50.0, 60.0, 70.0]),
    valid=tf.constant([True, True, False]),
    masks=tf.reshape(tf.cast(tf.range(6), tf.uint8), [3, 1, 2]),
)


def test_all_fields_are_kept_in_step() -> None:
    for keep, rows in (
        (tf.constant([True, False, True]), [0, 2]),
        (tf.constant([2, 0, 0]), [2, 0, 0]),
        (tf.constant([False] * 3), []),
    ):
        for before, after in zip(TRUTH, keep_objects(TRUTH, keep), strict=True):
            np.testing.assert_array_equal(after, np.asarray(before)[rows])
