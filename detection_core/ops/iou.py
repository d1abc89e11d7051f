"""Intersection over union of boxes, and other similarities of rows and columns of boxes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from detection_core.ops import boxes as box_ops


def intersection(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Area of the intersection of each row box with each column box.

    Args:
        rows: float32 [..., G, 4].
        columns: float32 [..., A, 4].

    Returns:
        float32 [..., G, A], at least 0.
    """
    return matched_intersection(rows[..., :, tf.newaxis, :], columns[..., tf.newaxis, :, :])


def iou(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Intersection over union of each pair; 0 where they do not overlap.

    Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge", 2010, section 4.2,
    https://doi.org/10.1007/s11263-009-0275-4.

    Args:
        rows: float32 [..., G, 4].
        columns: float32 [..., A, 4].

    Returns:
        float32 [..., G, A], in [0, 1] for boxes that are not inverted.
    """
    return matched_iou(rows[..., :, tf.newaxis, :], columns[..., tf.newaxis, :, :])


def ioa(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Intersection over the area of the column box, as COCO matches detections with crowd regions.

    Lin et al., "Microsoft COCO: Common Objects in Context", 2014, https://arxiv.org/abs/1405.0312.

    Args:
        rows: float32 [..., G, 4].
        columns: float32 [..., A, 4].

    Returns:
        float32 [..., G, A]; 0 where the column box has no area.
    """
    return tf.math.divide_no_nan(intersection(rows, columns), box_ops.area(columns)[..., tf.newaxis, :])


def squared_distance(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Squared Euclidean distance between the four coordinates of each pair.

    Args:
        rows: float32 [..., G, 4].
        columns: float32 [..., A, 4].

    Returns:
        float32 [..., G, A].
    """
    row_norm = tf.reduce_sum(tf.square(rows), axis=-1)[..., :, tf.newaxis]
    column_norm = tf.reduce_sum(tf.square(columns), axis=-1)[..., tf.newaxis, :]
    return row_norm + column_norm - 2.0 * tf.einsum("...gk,...ak->...ga", rows, columns)


def matched_intersection(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Area of the intersection of boxes taken in pairs.

    Args:
        first: float32 [..., 4].
        second: float32 [..., 4], broadcastable.

    Returns:
        float32 [...], at least 0.
    """
    ymin1, xmin1, ymax1, xmax1 = tf.unstack(first, axis=-1)
    ymin2, xmin2, ymax2, xmax2 = tf.unstack(second, axis=-1)
    # Height and width are multiplied one after the other so that a graph frees the first pair of maxima
    # before it makes the second: for all anchors of a batch each of them is hundreds of megabytes.
    height = tf.nn.relu(tf.minimum(ymax1, ymax2) - tf.maximum(ymin1, ymin2))
    return height * tf.nn.relu(tf.minimum(xmax1, xmax2) - tf.maximum(xmin1, xmin2))


def matched_iou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Intersection over union of boxes taken in pairs; 0 where they do not overlap.

    Args:
        first: float32 [..., 4].
        second: float32 [..., 4], broadcastable.

    Returns:
        float32 [...].
    """
    overlap_area = matched_intersection(first, second)
    return tf.math.divide_no_nan(overlap_area, box_ops.area(first) + box_ops.area(second) - overlap_area)


def matched_giou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Generalised IoU of boxes taken in pairs: IoU minus the empty fraction of the enclosing box.

    Rezatofighi et al., "Generalized Intersection over Union", 2019, https://arxiv.org/abs/1902.09630.

    Args:
        first: float32 [..., 4].
        second: float32 [..., 4], broadcastable.

    Returns:
        float32 [...], in [-1, 1] for boxes that are not inverted.
    """
    overlap_area = matched_intersection(first, second)
    union = box_ops.area(first) + box_ops.area(second) - overlap_area
    low = tf.minimum(first[..., :2], second[..., :2])
    high = tf.maximum(first[..., 2:], second[..., 2:])
    enclosing = tf.reduce_prod(high - low, axis=-1)
    overlap = tf.math.divide_no_nan(overlap_area, union)
    return overlap - tf.math.divide_no_nan(enclosing - union, enclosing)


# float32 rows [..., G, 4] and columns [..., A, 4] -> float32 [..., G, A], larger is more alike.
Similarity = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def negative_squared_distance(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Squared distance of the coordinates, negated so that larger is more alike.

    Args:
        rows: float32 [..., G, 4].
        columns: float32 [..., A, 4].

    Returns:
        float32 [..., G, A], at most 0.
    """
    return -squared_distance(rows, columns)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ThresholdedIou:
    """IoU kept where it is high enough and replaced by the score of its row elsewhere.

    Attributes:
        iou_threshold: lowest IoU at which two boxes count as the same object.
    """

    iou_threshold: float

    def __call__(self, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
        """Compare boxes whose rows all have score 1, as ground truth has.

        Args:
            rows: float32 [..., G, 4].
            columns: float32 [..., A, 4].

        Returns:
            float32 [..., G, A].
        """
        return self.with_scores(rows, columns, tf.ones(tf.shape(rows)[:-1], rows.dtype))

    def with_scores(self, rows: tf.Tensor, columns: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        """Compare boxes that carry scores.

        Args:
            rows: float32 [..., G, 4].
            columns: float32 [..., A, 4].
            scores: float32 [..., G].

        Returns:
            float32 [..., G, A]: the row's score where the IoU reaches the threshold, else 0.
        """
        overlap = iou(rows, columns)
        return tf.where(overlap >= self.iou_threshold, scores[..., tf.newaxis], tf.zeros_like(overlap))
