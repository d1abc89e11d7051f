"""Squares cut from scaled images."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.augment.augmentation import random_int, scaled, uniforms
from detection_core.augment.crops import Window, crop_image, crop_masks, crop_truth
from detection_core.augment.pads import pad_image, pad_masks
from detection_core.ops.resampling import resize_pixels
from detection_core.structures import Sample


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomSquareCropByScale:
    """Cut out a square around a random centre, black where it leaves the image, as CenterNet was trained.

    Zhou et al., "Objects as Points", 2019, https://arxiv.org/abs/1904.07850.

    Attributes:
        max_border: how far the centre stays from the edges, pixels; less in images too small for it.
        scale_min: smallest side of the square, as a fraction of the image's longer side.
        scale_max: largest side.
        num_scales: sides to choose from, spread evenly.
    """

    max_border: int = 128
    scale_min: float = 0.6
    scale_max: float = 1.3
    num_scales: int = 8

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        draws, size = uniforms(seed, 3), tf.shape(sample.image)[:2]
        scales = tf.linspace(self.scale_min, self.scale_max, self.num_scales)
        scale = tf.gather(scales, random_int(draws[0], 0, self.num_scales - 1))
        border = tf.map_fn(self._border, size)
        return square_crop(sample, scale, random_int(draws[1:], border, size - border - 1))

    def _border(self, length: tf.Tensor) -> tf.Tensor:
        """Return the largest max_border / 2^n that leaves room for the centre."""
        halved = tf.constant([self.max_border >> n for n in range(self.max_border.bit_length() + 1)])
        return tf.reduce_max(tf.where(2 * halved < length, halved, 0))


def square_crop(sample: Sample, scale: tf.Tensor, centre: tf.Tensor) -> Sample:
    """Cut out a square.

    Args:
        sample: what to cut.
        scale: float32 [], side as a fraction of the image's longer side.
        centre: int32 [2], row and column of the square's centre.
    """
    size = tf.shape(sample.image)[:2]
    side = tf.cast(tf.cast(tf.reduce_max(size), tf.float32) * scale, tf.int32)
    begin = centre - side // 2
    first = tf.maximum(begin, 0)
    # The last row and column are left out where the square passes them: published detectors saw it so.
    last = tf.maximum(tf.minimum(begin + side, size - 1), first + 1)
    return _square(sample, Window(first, last - first), first - begin, side)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomScaleCropAndPadToSquare:
    """Scale the image against a square, then cut or pad it to fill that: scale jittering.

    Tan et al., "EfficientDet: Scalable and Efficient Object Detection", 2020,
    https://arxiv.org/abs/1911.09070.

    Attributes:
        output_size: side of the square, pixels.
        scale_min: smallest length of the image's longer side, as a fraction of the square's.
        scale_max: largest length.
    """

    output_size: int = 512
    scale_min: float = 0.1
    scale_max: float = 2.0

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        draws = uniforms(seed, 3)
        size = tf.cast(tf.shape(sample.image)[:2], tf.float32)
        side = scaled(draws[0], self.scale_min, self.scale_max) * self.output_size
        resized = _resize(sample, tf.cast(size * (side / tf.reduce_max(size)), tf.int32))
        size = tf.shape(resized.image)[:2]
        begin = random_int(draws[1:], 0, tf.maximum(size - self.output_size, 0))
        window = Window(begin, tf.minimum(size, self.output_size))
        return _square(resized, window, tf.zeros([2], tf.int32), tf.constant(self.output_size))


def _resize(sample: Sample, size: tf.Tensor) -> Sample:
    """Resize image and masks; a mask's pixel is set if at least half of it was."""
    size, masks = tf.maximum(size, 1), sample.truth.masks
    if masks.shape[1:] != [0, 0]:
        # One more than there are objects: without any channel nothing can be resized.
        as_channels = tf.pad(tf.transpose(tf.cast(masks, tf.float32), [1, 2, 0]), [[0, 0], [0, 0], [0, 1]])
        fractions = resize_pixels(as_channels, size)[..., :-1]
        masks = tf.cast(tf.transpose(fractions, [2, 0, 1]) >= 0.5, masks.dtype)
    truth = sample.truth._replace(masks=masks)
    return sample._replace(image=resize_pixels(sample.image, size), truth=truth)


def _square(sample: Sample, window: Window, offset: tf.Tensor, side: tf.Tensor) -> Sample:
    """Put a window of the image on a black square, at int32 [2] `offset`; boxes are cut at the square."""
    square = tf.concat([window.begin - offset, window.begin - offset + side], 0)
    frame = tf.cast(square, tf.float32) / tf.cast(tf.tile(tf.shape(sample.image)[:2], [2]), tf.float32)
    room = tf.stack([offset, side - offset - window.size], axis=1)
    masks = pad_masks(crop_masks(sample.truth.masks, window), room)
    truth = sample.truth._replace(masks=masks)
    truth = crop_truth(truth, frame, overlap_thresh=0.0, clip_boxes=True)
    image = pad_image(crop_image(sample.image, window), room)
    return sample._replace(image=image, truth=truth)
