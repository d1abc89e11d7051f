"""Choosing among the objects of an image."""

from __future__ import annotations

import tensorflow as tf

from detection_core.structures import GroundTruth


def keep_objects(truth: GroundTruth, keep: tf.Tensor) -> GroundTruth:
    """Keep some of the objects, all fields in step.

    Args:
        truth: unbatched.
        keep: bool [G], or whole numbers [K]: rows in the wanted order.
    """
    rows = tf.where(keep)[:, 0] if keep.dtype == tf.bool else keep
    return GroundTruth(*[tf.gather(field, rows) for field in truth])
