"""Image corruptions: black patches, Gaussian noise, JPEG artefacts."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.augment.augmentation import random_int, scaled, skip_with_probability, uniforms
from detection_core.structures import Sample


def _float(sample: Sample) -> Sample:
    return sample._replace(image=tf.cast(sample.image, tf.float32))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomBlackPatches:
    """Blacken some squares.

    Attributes:
        max_black_patches: most squares.
        probability: of each square.
        size_to_image_ratio: side as a fraction of the image's shorter side.
    """

    max_black_patches: int = 10
    probability: float = 0.5
    size_to_image_ratio: float = 0.1

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws = tf.random.stateless_uniform([self.max_black_patches, 3], seed)
        corners = draws[:, 1:] * (1.0 - self.size_to_image_ratio)
        return blacken(sample, corners, draws[:, 0] < self.probability, self.size_to_image_ratio)


def blacken(sample: Sample, corners: tf.Tensor, taken: tf.Tensor, size_to_image_ratio: float) -> Sample:
    """Blacken the `taken`, bool [N], of the squares at `corners`.

    `corners` are float32 [N, 2], first row and column, normalised. The ratio gives the side as a fraction of
    the image's shorter side.
    """
    size = tf.shape(sample.image)[:2]
    side = tf.cast(tf.cast(tf.reduce_min(size), tf.float32) * size_to_image_ratio, tf.int32)
    first = tf.cast(corners * tf.cast(size, tf.float32), tf.int32)
    in_rows, in_columns = (
        (tf.range(size[a]) >= first[:, a, tf.newaxis]) & (tf.range(size[a]) < first[:, a, tf.newaxis] + side)
        for a in (0, 1)
    )
    rows = tf.cast(in_rows & taken[:, tf.newaxis], tf.float32)
    black = tf.matmul(rows, tf.cast(in_columns, tf.float32), transpose_a=True) > 0
    image = tf.cast(sample.image, tf.float32)
    return sample._replace(image=tf.where(black[..., tf.newaxis], 0.0, image))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomPatchGaussian:
    """Add Gaussian noise in one square, with a probability.

    Lopes et al., "Improving Robustness Without Sacrificing Accuracy with Patch Gaussian Augmentation", 2019,
    https://arxiv.org/abs/1906.02611.

    Attributes:
        min_patch_size: smallest side, pixels.
        max_patch_size: largest side, pixels.
        min_gaussian_stddev: smallest standard deviation, as a fraction of the full range.
        max_gaussian_stddev: largest standard deviation.
        random_coef: probability of no change.
    """

    min_patch_size: int = 1
    max_patch_size: int = 250
    min_gaussian_stddev: float = 0.0
    max_gaussian_stddev: float = 1.0
    random_coef: float = 0.0

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws, size = uniforms(seed, 5), tf.shape(sample.image)[:2]
        stddev = scaled(draws[4], self.min_gaussian_stddev, self.max_gaussian_stddev)

        def change(sample: Sample) -> Sample:
            noise_seed = tf.random.fold_in(seed, 1)
            noise = stddev * tf.random.stateless_normal(tf.shape(sample.image), noise_seed)
            centre = random_int(draws[2:4], 0, size - 1)
            side = random_int(draws[1], self.min_patch_size, self.max_patch_size)
            return add_in_patch(sample, noise, centre, side)

        return skip_with_probability(draws[0], self.random_coef, change, _float(sample))


def add_in_patch(sample: Sample, noise: tf.Tensor, centre: tf.Tensor, side: tf.Tensor) -> Sample:
    """Add noise, float32 [H, W, 3] as a fraction of the full range, in one square.

    `centre` is int32 [2], row and column; the square may exceed the image.
    """
    size, begin = tf.shape(sample.image)[:2], centre - side // 2
    in_rows, in_columns = (
        (tf.range(size[a]) >= begin[a]) & (tf.range(size[a]) < begin[a] + side) for a in (0, 1)
    )
    inside = (in_rows[:, tf.newaxis] & in_columns)[..., tf.newaxis]
    noisy = tf.clip_by_value(sample.image / 255.0 + noise, 0.0, 1.0) * 255.0
    return sample._replace(image=tf.where(inside, noisy, sample.image))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomJpegQuality:
    """Compress the image as JPEG and decode it, with a probability.

    Attributes:
        random_coef: probability of no change.
        min_jpeg_quality: lowest quality, 0..100.
        max_jpeg_quality: highest quality.
    """

    random_coef: float = 0.0
    min_jpeg_quality: int = 0
    max_jpeg_quality: int = 100

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws = uniforms(seed, 2)
        quality = random_int(draws[1], self.min_jpeg_quality, self.max_jpeg_quality)

        def change(sample: Sample) -> Sample:
            pixels = tf.saturate_cast(tf.round(sample.image), tf.uint8)
            decoded = tf.io.decode_jpeg(tf.raw_ops.EncodeJpegVariableQuality(images=pixels, quality=quality))
            return sample._replace(image=tf.ensure_shape(tf.cast(decoded, tf.float32), sample.image.shape))

        return skip_with_probability(draws[0], self.random_coef, change, _float(sample))
