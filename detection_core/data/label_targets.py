"""Classification targets of an image's objects: one class, scores, or merged boxes."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.ops.objects import keep_objects
from detection_core.structures import GroundTruth


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelTargets:
    """Choose the classes to train on, after all augmentation.

    Attributes:
        classes: C.
        use_scores: train on recorded class scores instead of each object's class.
        merge_equal_boxes: merge objects with the same box; the scores hold all their classes.
        keypoint_weights: weight of each kind of keypoint; empty: 1 for all.
    """

    classes: int
    use_scores: bool = False
    merge_equal_boxes: bool = False
    keypoint_weights: tuple[float, ...] = ()

    def __call__(self, truth: GroundTruth) -> GroundTruth:
        """Change unbatched ground truth."""
        if self.merge_equal_boxes:
            truth = merge_equal_boxes(truth, self.classes)
        elif not self.use_scores:
            truth = truth._replace(class_scores=truth.class_scores[:, :0])
        if self.keypoint_weights:
            weights = truth.keypoint_weights * tf.constant(self.keypoint_weights)
            truth = truth._replace(keypoint_weights=weights)
        return truth


def merge_equal_boxes(truth: GroundTruth, classes: int) -> GroundTruth:
    """Merge unbatched objects with the same box.

    Returns:
        The first object of each box, with confidence 1. Its class_scores [G, C] hold the confidence of each
        class among the objects with that box, and 0 for other classes.
    """
    boxes, count = truth.boxes, tf.shape(truth.boxes)[0]
    equal = tf.reduce_all(boxes[:, tf.newaxis] == boxes, axis=-1)
    first = tf.reduce_min(tf.where(equal, tf.range(count), count), axis=1)
    scores = tf.one_hot(truth.classes, classes) * truth.confidences[:, tf.newaxis]
    # If several objects of one box share a class, the highest confidence counts.
    for_class, against_class = (
        tf.maximum(tf.math.unsorted_segment_max(sign * scores, first, count), 0.0) for sign in (1.0, -1.0)
    )
    merged = truth._replace(
        class_scores=tf.ensure_shape(for_class - against_class, [None, classes]),
        confidences=tf.ones_like(truth.confidences),
    )
    return keep_objects(merged, first == tf.range(count))
