"""Other sizes of an image."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.augment.augmentation import random_int, scaled, skip_with_probability, uniforms
from detection_core.ops.resampling import Method, resize_masks, resize_pixels
from detection_core.structures import Sample


def resize(
    sample: Sample, size: tf.Tensor, method: Method = "BILINEAR", *, align_corners: bool = False
) -> Sample:
    """Bring image and masks to int32 [2] rows and columns; normalised boxes stay as they are."""
    size = tf.maximum(size, 1)
    masks = resize_masks(sample.truth.masks, size, align_corners=align_corners)
    image = resize_pixels(sample.image, size, method, align_corners=align_corners)
    return sample._replace(image=image, truth=sample.truth._replace(masks=masks))


def _scaled_size(sample: Sample, scale: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.cast(tf.shape(sample.image)[:2], tf.float32) * scale, tf.int32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomImageScale:
    """Scale the image, keeping its aspect ratio.

    Attributes:
        min_scale_ratio: smallest factor.
        max_scale_ratio: largest factor.
    """

    min_scale_ratio: float = 0.5
    max_scale_ratio: float = 2.0

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        scale = scaled(uniforms(seed, 1)[0], self.min_scale_ratio, self.max_scale_ratio)
        return scale_image(sample, scale)


def scale_image(sample: Sample, scale: tf.Tensor) -> Sample:
    """Scale the image by a factor; the corner samples of before and after coincide."""
    return resize(sample, _scaled_size(sample, scale), align_corners=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResizeImage:
    """Stretch the image to one size.

    Attributes:
        new_height: rows.
        new_width: columns.
        method: interpolation.
    """

    new_height: int
    new_width: int
    method: Method = "BILINEAR"

    def __post_init__(self) -> None:
        """Refuse an empty image.

        Raises:
            ValueError: for it.
        """
        if self.new_height <= 0 or self.new_width <= 0:
            raise ValueError(
                f"height and width must be above 0, found {self.new_height} and {self.new_width}"
            )

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        return resize(sample, tf.constant([self.new_height, self.new_width]), self.method)


_METHODS: tuple[Method, ...] = ("BILINEAR", "NEAREST_NEIGHBOR", "BICUBIC", "AREA")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomResizeMethod:
    """Stretch the image to one size with any of the interpolations.

    Attributes:
        target_height: rows.
        target_width: columns.
    """

    target_height: int
    target_width: int

    def __post_init__(self) -> None:
        """Refuse an empty image.

        Raises:
            ValueError: for it.
        """
        ResizeImage(new_height=self.target_height, new_width=self.target_width)

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        size = tf.constant([self.target_height, self.target_width])
        choice = random_int(uniforms(seed, 1)[0], 0, len(_METHODS) - 1)
        return tf.switch_case(choice, [lambda m=m: resize(sample, size, m) for m in _METHODS])


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomDownscaleToTargetPixels:
    """Make an image of many pixels smaller, or not.

    Attributes:
        min_target_pixels: fewest pixels, rows times columns, to scale down to.
        max_target_pixels: most pixels.
        random_coef: probability of no change.
    """

    min_target_pixels: int = 300000
    max_target_pixels: int = 500000
    random_coef: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a range that is empty.

        Raises:
            ValueError: for it.
        """
        if not 0 < self.min_target_pixels <= self.max_target_pixels:
            raise ValueError(
                "min_target_pixels must be above 0 and not above max_target_pixels, found "
                f"{self.min_target_pixels} and {self.max_target_pixels}"
            )

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        draws = uniforms(seed, 2)
        target = random_int(draws[1], self.min_target_pixels, self.max_target_pixels)
        sample = sample._replace(image=tf.cast(sample.image, tf.float32))
        return skip_with_probability(
            draws[0], self.random_coef, lambda s: downscale_to_pixels(s, target), sample
        )


def downscale_to_pixels(sample: Sample, target: tf.Tensor) -> Sample:
    """Scale down to about `target` pixels; an image that has no more stays as it is."""
    pixels = tf.reduce_prod(tf.shape(sample.image)[:2])
    scale = tf.sqrt(tf.cast(target, tf.float32) / tf.cast(pixels, tf.float32))
    return tf.cond(pixels > target, lambda: resize(sample, _scaled_size(sample, scale)), lambda: sample)
