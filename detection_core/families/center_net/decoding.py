"""Detections from heatmaps: peaks, and boxes from sizes and offsets at the peaks.

Peaks are no neighbours of each other, so that no suppression follows, https://arxiv.org/abs/1904.07850.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

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
    """Set values to 0 that are not the largest of a window around them; heatmaps are float32 [B, h, w, C]."""
    if window <= 1:
        return heatmaps
    largest = tf.nn.max_pool2d(heatmaps, window, 1, "SAME")
    return heatmaps * tf.cast(tf.abs(heatmaps - largest) < PEAK_TOLERANCE, heatmaps.dtype)


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
