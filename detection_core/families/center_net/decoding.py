"""Detections from heatmaps: peaks, boxes from sizes and offsets at the peaks, and keypoints.

Objects as Points, https://arxiv.org/abs/1904.07850. Peaks are no neighbours of each other, so that no
suppression follows unless a config asks for it. Keypoints are regressed from the centre, then moved to a
nearby peak of their heatmap (section 4.2).
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from detection_core.families.center_net.network import Predictions, depth_head, keypoint_heads
from detection_core.families.center_net.targets import box_deviations

PEAK_TOLERANCE = 1e-6
"""Distance from the largest value around it below which a value is a peak."""


class Peaks(NamedTuple):
    """The highest peaks of heatmaps, by falling score.

    Attributes:
        scores: float32 [B, N].
        rows: int32 [B, N].
        columns: int32 [B, N].
        channels: int32 [B, N].
    """

    scores: tf.Tensor
    rows: tf.Tensor
    columns: tf.Tensor
    channels: tf.Tensor


def only_peaks(heatmaps: tf.Tensor, window: int) -> tf.Tensor:
    """Set values to 0 that are not the largest of a window around them; heatmaps are float32 [B, h, w, C].

    Of equal values in a window one is kept; the Object Detection API keeps all. In int8 files neighbours are
    often equal, and one object would be found twice.
    """
    if window <= 1:
        return heatmaps
    largest = tf.nn.max_pool2d(heatmaps, window, 1, "SAME")
    peaks = tf.cast(tf.abs(heatmaps - largest) < PEAK_TOLERANCE, heatmaps.dtype)
    # No two pixels of a window have the same rank, which is at least 1.
    rows, columns = np.indices(heatmaps.shape[1:3], np.float32) % window
    ranks = peaks * (1 + rows * window + columns)[..., np.newaxis]
    highest = tf.nn.max_pool2d(ranks, window, 1, "SAME")
    return heatmaps * peaks * tf.cast(ranks >= highest, heatmaps.dtype)


def top_peaks(heatmaps: tf.Tensor, count: int, window: int = 3) -> Peaks:
    """Find the highest peaks of all channels together.

    Heatmaps are float32 [B, h, w, C] of static shape but for B. N is `count`, or h * w * C if that is less.
    """
    height, width, channels = heatmaps.shape[1:]
    flat = tf.reshape(only_peaks(heatmaps, window), [-1, height * width * channels])
    scores, places = tf.math.top_k(flat, min(count, height * width * channels))
    pixels = places // channels
    return Peaks(scores=scores, rows=pixels // width, columns=pixels % width, channels=places % channels)


def top_peaks_of_channels(heatmaps: tf.Tensor, count: int, window: int = 3) -> Peaks:
    """Find the highest peaks of each channel; N is C * `count`, channel after channel.

    Where a map has fewer than `count` values, the rest are at its first pixel, with score 0.
    """
    height, width, channels = heatmaps.shape[1:]
    flat = tf.reshape(only_peaks(heatmaps, window), [-1, height * width, channels])
    there = min(count, height * width)
    scores, pixels = tf.math.top_k(tf.transpose(flat, [0, 2, 1]), there)
    scores, pixels = (tf.pad(each, [[0, 0], [0, 0], [0, count - there]]) for each in (scores, pixels))
    number = tf.tile(tf.range(channels)[tf.newaxis, :, tf.newaxis], [tf.shape(scores)[0], 1, count])
    scores, pixels, number = (tf.reshape(each, [-1, channels * count]) for each in (scores, pixels, number))
    return Peaks(scores=scores, rows=pixels // width, columns=pixels % width, channels=number)


def at_pixels(values: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Gather maps, float32 [B, h, w, K], at int32 [B, N] rows and columns; return [B, N, K]."""
    height, width, channels = values.shape[1:]
    flat = tf.reshape(values, [-1, height * width, channels])
    return tf.gather(flat, rows * width + columns, batch_dims=1)


def boxes_at(peaks: Peaks, sizes: tf.Tensor, offsets: tf.Tensor) -> tf.Tensor:
    """Make the boxes of peaks.

    Args:
        peaks: of N objects.
        sizes: float32 [B, h, w, 2], height and width at each pixel; below 0 counts as 0.
        offsets: float32 [B, h, w, 2], from the pixel to the centre.

    Returns:
        float32 [B, N, 4], in pixels of the map and clipped to it.
    """
    corner = tf.cast(tf.stack([peaks.rows, peaks.columns], axis=-1), tf.float32)
    centers = corner + at_pixels(offsets, peaks.rows, peaks.columns)
    halves = tf.maximum(at_pixels(sizes, peaks.rows, peaks.columns), 0.0) / 2.0
    limits = tf.constant([*sizes.shape[1:3]] * 2, tf.float32)
    return tf.clip_by_value(tf.concat([centers - halves, centers + halves], axis=-1), 0.0, limits)


def in_true_images(values: tf.Tensor, true_sizes: tf.Tensor, stride: int) -> tf.Tensor:
    """Convert (y, x) pairs in pixels of a map to fractions of the true images.

    Values are float32 [B, ..., 2 * n]; true sizes int32 [B, 2], rows and columns of the input.
    """
    factor = stride / tf.cast(true_sizes, tf.float32)
    factor = tf.tile(factor, [1, values.shape[-1] // 2])
    return values * tf.reshape(factor, [-1, *[1] * (values.shape.rank - 2), values.shape[-1]])


# Distance of candidates that are none.
_FAR = 1e5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Refinement:
    """How regressed keypoints are moved to candidates.

    Attributes:
        score_threshold: lowest score of a candidate.
        candidates: most candidates of each keypoint.
        window: rows and columns in which a candidate is the highest value.
        unmatched_score: score of a keypoint that stays where it was regressed.
        box_scale: factor of an object's box that candidates lie in.
        search_scale: largest distance to a candidate, as a fraction of the scaled box's longer side.
        ranking: of `RANKINGS`.
        distance_offset: added to distances by "score_distance_ratio".
        distance_multiplier: of the box's longer side, added to distances by "score_scaled_distance_ratio".
        deviations: of each keypoint, for "gaussian_weighted".
        rescored: whether an object's score becomes its product with the mean score of its keypoints.
        rescoring_threshold: keypoints count for that above this score.
        clipped: whether keypoints outside of the image are moved to its edge, with score 0.
    """

    score_threshold: float = 0.1
    candidates: int = 100
    window: int = 3
    unmatched_score: float = 0.1
    box_scale: float = 1.2
    search_scale: float = 0.3
    ranking: str = "min_distance"
    distance_offset: float = 1.0
    distance_multiplier: float = 0.1
    deviations: tuple[float, ...] = ()
    rescored: bool = False
    rescoring_threshold: float = 0.0
    clipped: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeypointTask:
    """Keypoints of one class.

    Attributes:
        name: of the task, the start of its heads' names.
        class_index: in [0, C).
        indices: of its keypoints in the ground truth, and in detections.
        deviations: of each keypoint's heatmap, as a factor of the object's.
        offset_radius: pixels around a keypoint whose offsets are trained.
        refinement: how keypoints are moved to candidates.
        depths: channels of the head of depths, one or one for each keypoint; 0: there is none.
    """

    name: str
    class_index: int
    indices: tuple[int, ...]
    deviations: tuple[float, ...]
    offset_radius: int = 0
    refinement: Refinement = Refinement()
    depths: int = 0


class Candidates(NamedTuple):
    """Peaks of the keypoints' heatmaps, K keypoints.

    Attributes:
        places: float32 [B, M, K, 2], (y, x) in pixels of the map.
        scores: float32 [B, M, K].
        counts: int32 [B, K], number of the M that count.
        depths: float32 [B, M, K]; None: there are none.
    """

    places: tf.Tensor
    scores: tf.Tensor
    counts: tf.Tensor
    depths: tf.Tensor | None = None


def find_candidates(
    heatmaps: tf.Tensor, offsets: tf.Tensor, options: Refinement, depths: tf.Tensor | None = None
) -> Candidates:
    """Find the candidates of each keypoint.

    Heatmaps are scores, float32 [B, h, w, K]; offsets [B, h, w, 2], or [B, h, w, 2 * K] of each keypoint;
    depths [B, h, w, 1] or [B, h, w, K].
    """
    keypoints, most = heatmaps.shape[3], options.candidates
    peaks = top_peaks_of_channels(heatmaps, most, options.window)

    def own(values: tf.Tensor, size: int) -> tf.Tensor:
        """Take the `size` channels of each peak's keypoint, [B, K, M, size]."""
        taken = at_pixels(values, peaks.rows, peaks.columns)
        taken = tf.reshape(taken, [-1, keypoints, most, values.shape[3] // size, size])
        each = tf.eye(keypoints)[tf.newaxis, :, tf.newaxis, :, tf.newaxis]
        return taken[:, :, :, 0] if taken.shape[3] == 1 else tf.reduce_sum(taken * each, axis=3)

    moved = own(offsets, 2)
    corner = tf.reshape(tf.stack([peaks.rows, peaks.columns], axis=-1), [-1, keypoints, most, 2])
    places = tf.transpose(tf.cast(corner, tf.float32) + moved, [0, 2, 1, 3])
    scores = tf.transpose(tf.reshape(peaks.scores, [-1, keypoints, most]), [0, 2, 1])
    counts = tf.reduce_sum(tf.cast(scores >= options.score_threshold, tf.int32), axis=1)
    far = None if depths is None else tf.transpose(own(depths, 1)[..., 0], [0, 2, 1])
    return Candidates(places=places, scores=scores, counts=counts, depths=far)


Ranked = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, Refinement], tf.Tensor]
"""(scores [B, 1, M, K], distances [B, N, M, K], boxes [B, N, 4], options) -> how good each candidate is."""


def _gaussian(scores: tf.Tensor, distances: tf.Tensor, boxes: tf.Tensor, options: Refinement) -> tf.Tensor:
    sides = boxes[..., 2:] - boxes[..., :2]
    deviations = box_deviations(sides[..., 0], sides[..., 1], GAUSSIAN_OVERLAP)
    spread = deviations[:, :, tf.newaxis, tf.newaxis] * tf.constant(options.deviations)
    return scores * tf.exp(-tf.square(distances) / (2.0 * tf.square(spread)))


def _scaled(scores: tf.Tensor, distances: tf.Tensor, boxes: tf.Tensor, options: Refinement) -> tf.Tensor:
    offset = tf.reduce_max(boxes[..., 2:] - boxes[..., :2], axis=-1) * options.distance_multiplier
    return scores / (distances + offset[:, :, tf.newaxis, tf.newaxis])


GAUSSIAN_OVERLAP = 0.7
_BY_GAUSSIAN = "gaussian_weighted"
RANKINGS: Mapping[str, Ranked] = {
    "min_distance": lambda scores, distances, boxes, options: -distances,
    "score_distance_ratio": lambda scores, distances, boxes, options: (
        scores / (distances + options.distance_offset)
    ),
    "score_scaled_distance_ratio": _scaled,
    _BY_GAUSSIAN: _gaussian,
}


def refine(
    regressed: tf.Tensor, found: Candidates, boxes: tf.Tensor | None, options: Refinement
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Move regressed keypoints to their best candidate, where it is near and inside the object.

    Without boxes only the candidate's score counts, as in the Object Detection API.

    Args:
        regressed: float32 [B, N, K, 2], (y, x) in pixels of the map.
        found: the candidates.
        boxes: float32 [B, N, 4], in pixels of the map; None: the detector has none.
        options: how keypoints are moved.

    Returns:
        Keypoints like `regressed`, their scores, float32 [B, N, K], and the depths of moved ones, [B, N, K]
            or, if candidates have none, [B, N, 0]; 0 for those that are not moved.
    """
    difference = regressed[:, :, tf.newaxis] - found.places[:, tf.newaxis]
    number = tf.range(tf.shape(found.scores)[1])[tf.newaxis, :, tf.newaxis]
    there = (number < found.counts[:, tf.newaxis])[:, tf.newaxis]
    distances = tf.where(there, tf.sqrt(tf.reduce_sum(tf.square(difference), axis=-1)), _FAR)
    quality = RANKINGS[options.ranking](found.scores[:, tf.newaxis], distances, boxes, options)
    best = tf.argmax(quality, axis=2, output_type=tf.int32)
    # Of [B, K, M, ...], so that each keypoint chooses among its candidates.
    order = tf.transpose(best, [0, 2, 1])
    places = tf.gather(tf.transpose(found.places, [0, 2, 1, 3]), order, batch_dims=2)
    places = tf.transpose(places, [0, 2, 1, 3])

    def chosen(values: tf.Tensor) -> tf.Tensor:
        """Take the best of [B, M, K], [B, N, K]."""
        return tf.transpose(tf.gather(tf.transpose(values, [0, 2, 1]), order, batch_dims=2), [0, 2, 1])

    scores = tf.reduce_max(quality, axis=2) if options.ranking == _BY_GAUSSIAN else chosen(found.scores)
    moved = scores >= options.score_threshold
    if boxes is not None:
        moved &= _within_reach(places, tf.reduce_min(distances, axis=2), boxes, options)
    return (
        tf.where(moved[..., tf.newaxis], places, regressed),
        tf.where(moved, scores, options.unmatched_score),
        regressed[..., :0, 0] if found.depths is None else tf.where(moved, chosen(found.depths), 0.0),
    )


def _within_reach(places: tf.Tensor, nearest: tf.Tensor, boxes: tf.Tensor, options: Refinement) -> tf.Tensor:
    """Return bool [B, N, K]: the place is in the scaled box, and any candidate is near the keypoint."""
    middle, half = (boxes[..., 2:] + boxes[..., :2]) / 2.0, (boxes[..., 2:] - boxes[..., :2]) / 2.0
    low, high = middle - half * options.box_scale, middle + half * options.box_scale
    radius = tf.reduce_max(high - low, axis=-1) * options.search_scale
    inside = tf.reduce_all((places >= low[:, :, tf.newaxis]) & (places <= high[:, :, tf.newaxis]), axis=-1)
    return inside & (nearest <= radius[:, :, tf.newaxis])


def detect_keypoints(
    predictions: Predictions, peaks: Peaks, boxes: tf.Tensor | None, task: KeypointTask
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Find the keypoints of a task for every peak, whatever its class; boxes and results as of `refine`."""
    heatmap, offset, regression = (predictions[name][-1] for name in keypoint_heads(task.name))
    count = len(task.indices)
    moves = at_pixels(regression, peaks.rows, peaks.columns)
    corner = tf.cast(tf.stack([peaks.rows, peaks.columns], axis=-1), tf.float32)[:, :, tf.newaxis]
    regressed = corner + tf.reshape(moves, [-1, peaks.rows.shape[1], count, 2])
    depths = predictions[depth_head(task.name)][-1] if task.depths else None
    found = find_candidates(tf.sigmoid(heatmap), offset, task.refinement, depths)
    return refine(regressed, found, boxes, task.refinement)


def clip_to_image(keypoints: tf.Tensor, scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Move keypoints, as fractions of the true image, to its edge, and set the scores of moved ones to 0."""
    inside = tf.reduce_all((keypoints >= 0.0) & (keypoints <= 1.0), axis=-1)
    return tf.clip_by_value(keypoints, 0.0, 1.0), tf.where(inside, scores, 0.0)


def rescore(
    scores: tf.Tensor, of_task: tf.Tensor, keypoint_scores: tf.Tensor, options: Refinement
) -> tf.Tensor:
    """Multiply scores of objects of a task's class by the mean score of their visible keypoints.

    Scores are float32 [B, N], `of_task` bool [B, N], keypoint scores float32 [B, N, K].
    """
    visible = tf.cast(keypoint_scores > options.rescoring_threshold, tf.float32)
    mean = tf.reduce_sum(keypoint_scores * visible, axis=-1) / tf.maximum(
        tf.reduce_sum(visible, axis=-1), 1.0
    )
    return tf.where(of_task, scores * mean, scores)
