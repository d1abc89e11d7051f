"""What CenterNet's outputs are compared with, made of the ground truth of a batch.

Objects as Points, https://arxiv.org/abs/1904.07850. The width of a heatmap's peak follows from how far a box
may move, after CornerNet, https://arxiv.org/abs/1808.01244.
"""

from typing import NamedTuple

import tensorflow as tf

from detection_core.ops import boxes as box_ops
from detection_core.structures import GroundTruth

# Overlap that the width of keypoints' peaks follows from.
KEYPOINT_OVERLAP = 0.7
# Keypoints below this weight are unknown, and so is what their heatmap has in the object's box.
_UNKNOWN = 1e-3


def overlap_distance(height: tf.Tensor, width: tf.Tensor, min_overlap: float) -> tf.Tensor:
    """Return how far the corners of boxes may move for an IoU of at least `min_overlap`.

    The least solution of three quadratic equations. CenterNet solves them without the division by the first
    coefficient.
    """
    total, area = height + width, height * width

    def root(a: float, b: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        return (-b + tf.sqrt(tf.square(b) - 4.0 * a * c)) / 2.0

    moved = root(1.0, -total, area * (1.0 - min_overlap) / (1.0 + min_overlap))
    inside = root(4.0, -2.0 * total, (1.0 - min_overlap) * area)
    outside = root(4.0 * min_overlap, 2.0 * min_overlap * total, (min_overlap - 1.0) * area)
    return tf.minimum(tf.minimum(moved, inside), outside)


def box_deviations(height: tf.Tensor, width: tf.Tensor, min_overlap: float) -> tf.Tensor:
    """Return the standard deviation of the peaks of boxes, in pixels of the map as their sides."""
    radius = tf.maximum(tf.floor(overlap_distance(height, width, min_overlap)), 0.0)
    return (2.0 * radius + 1.0) / 6.0


def heatmaps(
    centers: tf.Tensor,
    deviations: tf.Tensor,
    channels: tf.Tensor,
    weights: tf.Tensor,
    shape: tuple[int, int, int],
) -> tf.Tensor:
    """Draw a Gaussian peak for each point; where several meet, the highest counts.

    Args:
        centers: float32 [B, N, 2], (y, x) in pixels of the map; rounded down.
        deviations: float32 [B, N], pixels.
        channels: int32 [B, N].
        weights: float32 [B, N], heights of the peaks.
        shape: rows, columns and channels of the map.

    Returns:
        float32 [B, rows, columns, channels], 0 to the largest weight.
    """
    rows, columns, count = shape
    images = tf.shape(centers)[0]
    low = tf.floor(centers)
    spread = (2.0 * tf.square(deviations))[..., tf.newaxis]
    over_rows = tf.exp(-tf.square(tf.range(rows, dtype=tf.float32) - low[..., :1]) / spread)
    over_columns = tf.exp(-tf.square(tf.range(columns, dtype=tf.float32) - low[..., 1:]) / spread)
    peaks = over_rows[..., tf.newaxis] * (over_columns * weights[..., tf.newaxis])[..., tf.newaxis, :]
    slots = channels + tf.range(images)[:, tf.newaxis] * count
    highest = tf.math.unsorted_segment_max(
        tf.reshape(peaks, [-1, rows, columns]), tf.reshape(slots, [-1]), images * count
    )
    drawn = tf.reshape(tf.maximum(highest, 0.0), [images, count, rows, columns])
    return tf.stop_gradient(tf.transpose(drawn, [0, 2, 3, 1]))


def boxes_px(truth: GroundTruth, shape: tuple[int, int]) -> tf.Tensor:
    """Return the boxes, float32 [B, G, 4], in pixels of the map."""
    return box_ops.scale(truth.boxes, *shape)


def _middle_and_sides(boxes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return (boxes[..., :2] + boxes[..., 2:]) / 2.0, boxes[..., 2:] - boxes[..., :2]


def center_heatmaps(
    truth: GroundTruth, shape: tuple[int, int], num_classes: int, min_overlap: float
) -> tf.Tensor:
    """Draw the centres of objects, float32 [B, rows, columns, C]."""
    middle, sides = _middle_and_sides(boxes_px(truth, shape))
    deviations = box_deviations(sides[..., 0], sides[..., 1], min_overlap)
    return heatmaps(middle, deviations, truth.classes, truth.weights, (*shape, num_classes))


def keypoint_center_heatmaps(
    truth: GroundTruth,
    known: "KeypointTruth",
    center_weights: tuple[float, ...],
    min_overlap: float,
    shape: tuple[int, int, int],
) -> tf.Tensor:
    """Draw the weighted means of objects' keypoints, float32 of `shape` with a leading B.

    A peak is as wide as that of a square whose sides are twice the mean distance of the keypoints. Objects
    without any keypoint of weight are left out.

    Args:
        truth: the objects.
        known: their keypoints.
        center_weights: weight of each of the K keypoints.
        min_overlap: IoU that boxes within a peak keep.
        shape: rows, columns and channels of the map.
    """
    weights = known.weights * tf.constant(center_weights)
    total = tf.reduce_sum(weights, axis=-1)

    def mean(values: tf.Tensor) -> tf.Tensor:
        """Average float32 [B, G, K, n] over the keypoints."""
        return tf.math.divide_no_nan(tf.einsum("bgkn,bgk->bgn", values, weights), total[..., tf.newaxis])

    middle = mean(known.points)
    away = tf.norm(known.points - middle[:, :, tf.newaxis], axis=-1, keepdims=True)
    side = 2.0 * mean(away)[..., 0]
    heights = tf.where(total > 0.0, truth.weights, 0.0)
    return heatmaps(middle, box_deviations(side, side, min_overlap), truth.classes, heights, shape)


class PointTargets(NamedTuple):
    """What an output is compared with at single pixels.

    Attributes:
        rows: int32 [B, N].
        columns: int32 [B, N].
        values: float32 [B, N, 2], or [B, N, 1] of depths.
        weights: float32 [B, N].
        channels: int32 [B, N], which of the output's pairs or depths; 0 if it has one.
    """

    rows: tf.Tensor
    columns: tf.Tensor
    values: tf.Tensor
    weights: tf.Tensor
    channels: tf.Tensor


def box_targets(truth: GroundTruth, shape: tuple[int, int]) -> tuple[PointTargets, PointTargets]:
    """Return the sizes, and the offsets of the centres from their pixels, of the objects."""
    middle, sides = _middle_and_sides(boxes_px(truth, shape))
    rows, columns = _pixels(middle, shape)
    first = tf.zeros_like(rows)
    sizes = PointTargets(rows, columns, sides, truth.weights, first)
    return sizes, sizes._replace(values=middle - tf.floor(middle))


def _pixels(points: tf.Tensor, shape: tuple[int, int]) -> tuple[tf.Tensor, tf.Tensor]:
    low = tf.cast(tf.floor(points), tf.int32)
    return tuple(tf.clip_by_value(low[..., axis], 0, shape[axis] - 1) for axis in (0, 1))


class KeypointTruth(NamedTuple):
    """The keypoints of one task.

    Attributes:
        points: float32 [B, G, K, 2], (y, x) in pixels of the map; 0 where unknown.
        weights: float32 [B, G, K]; 0 where unknown, and for objects of other classes.
        boxes: float32 [B, G, 4], pixels of the map.
    """

    points: tf.Tensor
    weights: tf.Tensor
    boxes: tf.Tensor


def keypoint_truth(
    truth: GroundTruth, shape: tuple[int, int], class_index: int, indices: tuple[int, ...]
) -> KeypointTruth:
    """Select the keypoints of a task's class."""
    points = tf.gather(truth.keypoints, indices, axis=2)
    known = tf.logical_not(tf.math.is_nan(points))
    of_class = tf.cast(truth.classes == class_index, tf.float32) * truth.weights
    weights = tf.gather(truth.keypoint_weights, indices, axis=2) * tf.cast(known[..., 0], tf.float32)
    return KeypointTruth(
        points=tf.where(known, points, 0.0) * tf.constant(shape, tf.float32),
        weights=weights * of_class[..., tf.newaxis],
        boxes=boxes_px(truth, shape),
    )


def keypoint_heatmaps(
    found: KeypointTruth, deviations: tuple[float, ...], shape: tuple[int, int]
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Draw keypoints.

    Returns:
        Heatmaps, float32 [B, rows, columns, K]; the number of objects with each keypoint, int32 [B, K]; and a
        mask like the heatmaps, 0 in the boxes of objects whose keypoint is unknown.
    """
    count = len(deviations)
    _, sides = _middle_and_sides(found.boxes)
    own = box_deviations(sides[..., 0], sides[..., 1], KEYPOINT_OVERLAP)
    spread = own[..., tf.newaxis] * tf.constant(deviations)
    number = tf.zeros_like(found.weights, tf.int32) + tf.range(count)
    images = tf.shape(found.weights)[0]
    spread, number, weights = (tf.reshape(each, [images, -1]) for each in (spread, number, found.weights))
    drawn = heatmaps(tf.reshape(found.points, [images, -1, 2]), spread, number, weights, (*shape, count))
    objects = tf.cast(tf.reduce_sum(found.weights, axis=1), tf.int32)
    unknown = tf.cast(found.weights < _UNKNOWN, tf.float32)
    rows, columns = (
        tf.cast(
            (place >= found.boxes[..., axis, tf.newaxis]) & (place < found.boxes[..., axis + 2, tf.newaxis]),
            tf.float32,
        )
        for axis, place in enumerate(tf.range(side, dtype=tf.float32) for side in shape)
    )
    hidden = tf.einsum("bgk,bgr,bgc->brck", unknown, rows, columns)
    return drawn, objects, tf.cast(hidden == 0.0, tf.float32)


def _around(radius: int) -> list[tuple[int, int]]:
    """List the steps to the pixels within a radius."""
    steps = range(-radius, radius + 1)
    return [(y, x) for y in steps for x in steps if y * y + x * x <= radius * radius]


def _targets_around(
    sources: tf.Tensor, found: KeypointTruth, radius: int, shape: tuple[int, int]
) -> PointTargets:
    """Return the way from each pixel around `sources`, float32 [B, G, K, 2], to the keypoint."""
    pixels = tf.floor(sources)[..., tf.newaxis, :] + tf.constant(_around(radius), tf.float32)
    inside = tf.reduce_all((pixels >= 0.0) & (pixels < tf.constant(shape, tf.float32)), axis=-1)
    pixels = tf.where(inside[..., tf.newaxis], pixels, 0.0)
    values = found.points[..., tf.newaxis, :] - pixels
    weights = found.weights[..., tf.newaxis] * tf.cast(inside, tf.float32)
    number = tf.range(found.points.shape[2])[:, tf.newaxis] + tf.zeros_like(weights, tf.int32)
    images = tf.shape(weights)[0]
    places = tf.cast(pixels, tf.int32)
    rows, columns, weights, number = (
        tf.reshape(each, [images, -1]) for each in (places[..., 0], places[..., 1], weights, number)
    )
    return PointTargets(rows, columns, tf.reshape(values, [images, -1, 2]), weights, number)


def keypoint_offsets(found: KeypointTruth, radius: int, shape: tuple[int, int]) -> PointTargets:
    """Return the way to each keypoint from the pixels around it."""
    return _targets_around(found.points, found, radius, shape)


def keypoint_depths(
    found: KeypointTruth, depths: tf.Tensor, radius: int, shape: tuple[int, int]
) -> PointTargets:
    """Return the depth of each keypoint, float32 [B, G, K], at the pixels around it."""
    targets = keypoint_offsets(found, radius, shape)
    around = tf.repeat(depths[..., tf.newaxis], len(_around(radius)), axis=-1)
    return targets._replace(values=tf.reshape(around, [tf.shape(depths)[0], -1, 1]))


def keypoint_regressions(found: KeypointTruth, radius: int, shape: tuple[int, int]) -> PointTargets:
    """Return the way to each keypoint from the pixels around the object's centre."""
    middle, _ = _middle_and_sides(found.boxes)
    sources = tf.zeros_like(found.points) + middle[:, :, tf.newaxis]
    return _targets_around(sources, found, radius, shape)
