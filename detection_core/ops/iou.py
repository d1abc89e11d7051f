"""IoU and other similarities between two sets of boxes.

Pairwise functions compare rows, float32 [..., G, 4], with columns, float32 [..., A, 4], and return float32
[..., G, A]. Functions `matched_...` compare broadcastable boxes, float32 [..., 4], one to one and return
float32 [...].
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from detection_core.ops import boxes as box_ops


def intersection(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Return the area of each pair's intersection, at least 0."""
    return matched_intersection(rows[..., :, tf.newaxis, :], columns[..., tf.newaxis, :, :])


def iou(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Return the intersection over union of each pair; in [0, 1] for boxes that are not inverted.

    Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge", 2010, section 4.2,
    https://doi.org/10.1007/s11263-009-0275-4.
    """
    return matched_iou(rows[..., :, tf.newaxis, :], columns[..., tf.newaxis, :, :])


def ioa(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Return the intersection over the column box's area; 0 if it has no area.

    COCO matches detections with crowd regions in this way: Lin et al., "Microsoft COCO: Common Objects in
    Context", 2014, https://arxiv.org/abs/1405.0312.
    """
    return tf.math.divide_no_nan(intersection(rows, columns), box_ops.area(columns)[..., tf.newaxis, :])


def matched_intersection(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return the area of matched boxes' intersection, at least 0."""
    ymin1, xmin1, ymax1, xmax1 = tf.unstack(first, axis=-1)
    ymin2, xmin2, ymax2, xmax2 = tf.unstack(second, axis=-1)
    # Height and width are multiplied in sequence, so that a graph frees the first pair of maxima before it
    # computes the second. For all anchors of a batch, each of them takes hundreds of megabytes.
    height = tf.nn.relu(tf.minimum(ymax1, ymax2) - tf.maximum(ymin1, ymin2))
    return height * tf.nn.relu(tf.minimum(xmax1, xmax2) - tf.maximum(xmin1, xmin2))


def matched_iou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return the intersection over union of matched boxes; 0 without overlap."""
    overlap_area = matched_intersection(first, second)
    return tf.math.divide_no_nan(overlap_area, box_ops.area(first) + box_ops.area(second) - overlap_area)


def matched_giou(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return the generalised IoU of matched boxes: IoU minus the empty fraction of the enclosing box.

    It is in [-1, 1] for boxes that are not inverted. Rezatofighi et al., "Generalized Intersection over
    Union", 2019, https://arxiv.org/abs/1902.09630.
    """
    overlap_area = matched_intersection(first, second)
    union = box_ops.area(first) + box_ops.area(second) - overlap_area
    low = tf.minimum(first[..., :2], second[..., :2])
    high = tf.maximum(first[..., 2:], second[..., 2:])
    enclosing = tf.reduce_prod(high - low, axis=-1)
    overlap = tf.math.divide_no_nan(overlap_area, union)
    return overlap - tf.math.divide_no_nan(enclosing - union, enclosing)


# float32 rows [..., G, 4] and columns [..., A, 4] -> float32 [..., G, A], larger is more similar.
Similarity = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def negative_squared_distance(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Return the negated squared distance of the coordinates, at most 0, so that larger is more similar."""
    row_norm = tf.reduce_sum(tf.square(rows), axis=-1)[..., :, tf.newaxis]
    column_norm = tf.reduce_sum(tf.square(columns), axis=-1)[..., tf.newaxis, :]
    return -(row_norm + column_norm - 2.0 * tf.einsum("...gk,...ak->...ga", rows, columns))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ThresholdedIou:
    """Compares boxes by whether their IoU is at least `iou_threshold`."""

    iou_threshold: float

    def __call__(self, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
        """Return 1 where the IoU reaches the threshold, else 0."""
        return tf.cast(iou(rows, columns) >= self.iou_threshold, rows.dtype)
