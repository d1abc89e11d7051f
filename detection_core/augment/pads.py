"""Padding of an image, at random offsets."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.augment.augmentation import random_int, scaled, uniforms
from detection_core.augment.crops import RandomCropImage, truth_in_window
from detection_core.structures import Sample

Colour = tuple[float, float, float] | tuple[()]


def pad_image(image: tf.Tensor, room: tf.Tensor) -> tf.Tensor:
    """Pad [H, W, c] with zeros; room is int32 [2, 2]: above and below, left and right."""
    padded = tf.pad(image, tf.concat([room, [[0, 0]]], 0))
    return tf.ensure_shape(padded, [None, None, image.shape[-1]])


def pad_masks(masks: tf.Tensor, room: tf.Tensor) -> tf.Tensor:
    """Pad [G, H, W] likewise; zero-sized masks stay as they are."""
    if masks.shape[1:] == [0, 0]:
        return masks
    return tf.ensure_shape(tf.pad(masks, tf.concat([[[0, 0]], room], 0)), [None, None, None])


def pad(sample: Sample, size: tf.Tensor, offset: tf.Tensor, colour: Colour = ()) -> Sample:
    """Put the image on a larger canvas.

    Args:
        sample: image and objects to place.
        size: int32 [2], rows and columns of the canvas.
        offset: int32 [2], row and column of the image's first pixel.
        colour: of the canvas, 0..255; empty: the image's mean colour.
    """
    image, truth = tf.cast(sample.image, tf.float32), sample.truth
    room = tf.stack([offset, size - offset - tf.shape(image)[:2]], axis=1)
    canvas = tf.constant(colour) if colour else tf.reduce_mean(image, axis=(0, 1))
    frame = tf.cast(tf.concat([-offset, size - offset], 0), tf.float32)
    window = frame / tf.cast(tf.tile(tf.shape(image)[:2], [2]), tf.float32)
    truth = truth_in_window(truth, window)._replace(masks=pad_masks(truth.masks, room))
    return sample._replace(image=pad_image(image - canvas, room) + canvas, truth=truth)


def pad_at_random(
    sample: Sample, seed: tf.Tensor, *, smallest: tf.Tensor, largest: tf.Tensor, colour: Colour
) -> Sample:
    """Put the image anywhere on a canvas of any size of a range.

    Args:
        sample: image and objects to place.
        seed: int64 [2].
        smallest: int32 [2], rows and columns; raised to the image's where below.
        largest: int32 [2], likewise.
        colour: of the canvas; empty: the image's mean colour.
    """
    draws, image_size = uniforms(seed, 4), tf.shape(sample.image)[:2]
    largest = tf.maximum(largest, image_size)
    smallest = tf.clip_by_value(smallest, image_size, largest)
    size = random_int(draws[:2], smallest, largest)
    return pad(sample, size, random_int(draws[2:], 0, size - image_size), colour)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomPadImage:
    """Put the image anywhere on a larger canvas.

    Attributes:
        min_image_size: smallest canvas, rows and columns; empty: the image's size.
        max_image_size: largest canvas; empty: twice the image's size.
        pad_color: of the canvas, 0..255; empty: the image's mean colour.
    """

    min_image_size: tuple[int, int] | tuple[()] = ()
    max_image_size: tuple[int, int] | tuple[()] = ()
    pad_color: Colour = ()

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        size = tf.shape(sample.image)[:2]
        return pad_at_random(
            sample,
            seed,
            smallest=tf.constant(self.min_image_size) if self.min_image_size else size,
            largest=tf.constant(self.max_image_size) if self.max_image_size else 2 * size,
            colour=self.pad_color,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomAbsolutePadImage:
    """Put the image anywhere on a canvas with some more pixels.

    Attributes:
        max_height_padding: most rows to add.
        max_width_padding: most columns to add.
        pad_color: of the canvas, 0..255; empty: the image's mean colour.
    """

    max_height_padding: int = 1
    max_width_padding: int = 1
    pad_color: Colour = ()

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        size = tf.shape(sample.image)[:2]
        largest = size + tf.constant([self.max_height_padding, self.max_width_padding])
        return pad_at_random(sample, seed, smallest=size, largest=largest, colour=self.pad_color)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomCropPadImage:
    """Crop a random window, then put it anywhere on a canvas.

    Attributes:
        crop: the crop, which may be not taken; the padding always is.
        min_padded_size_ratio: smallest canvas, as fractions of the rows and columns before the crop.
        max_padded_size_ratio: largest canvas, likewise.
        pad_color: of the canvas, 0..255; empty: the crop's mean colour.
    """

    crop: RandomCropImage = dataclasses.field(default_factory=RandomCropImage)
    min_padded_size_ratio: tuple[float, float] = (1.0, 1.0)
    max_padded_size_ratio: tuple[float, float] = (2.0, 2.0)
    pad_color: Colour = ()

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        size = tf.cast(tf.shape(sample.image)[:2], tf.float32)
        return pad_at_random(
            self.crop(sample, seed),
            tf.random.fold_in(seed, 2),
            smallest=tf.cast(size * tf.constant(self.min_padded_size_ratio), tf.int32),
            largest=tf.cast(size * tf.constant(self.max_padded_size_ratio), tf.int32),
            colour=self.pad_color,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomPadToAspectRatio:
    """Pad below and to the right, with black, to an aspect ratio.

    Attributes:
        aspect_ratio: width / height of the result.
        min_padded_size_ratio: smallest canvas, as fractions of the image's rows and columns.
        max_padded_size_ratio: largest canvas, likewise.
    """

    aspect_ratio: float = 1.0
    min_padded_size_ratio: tuple[float, float] = (1.0, 1.0)
    max_padded_size_ratio: tuple[float, float] = (2.0, 2.0)

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        size = tf.cast(tf.shape(sample.image)[:2], tf.float32)
        fitting = tf.floor(tf.stack([size[1] / self.aspect_ratio, size[0] * self.aspect_ratio]))
        target = tf.maximum(size, fitting)
        largest = tf.reduce_min(tf.maximum(size * tf.constant(self.max_padded_size_ratio) / target, 1.0))
        smallest = tf.reduce_max(tf.maximum(size * tf.constant(self.min_padded_size_ratio) / target, 1.0))
        scale = scaled(uniforms(seed, 1)[0], tf.minimum(smallest, largest), largest)
        canvas = tf.cast(tf.round(target * scale), tf.int32)
        return pad(sample, canvas, tf.zeros([2], tf.int32), (0.0, 0.0, 0.0))
