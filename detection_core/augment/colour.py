"""Brightness, contrast, hue and saturation, and the colour operations of learned policies.

The functions of learned policies take and return uint8 [h, w, 3]. They imitate Pillow's `ImageOps` and
`ImageEnhance`, with the roundings used to train published policies. Augmentations work on float32, and their
factors have another meaning. Cubuk et al., "AutoAugment: Learning Augmentation Policies from Data", 2019,
https://arxiv.org/abs/1805.09501.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from detection_core.augment.augmentation import apply_with_probability, in_floats, scaled, uniforms
from detection_core.ops.resampling import change_colours, colour_shape
from detection_core.structures import Sample


def _clipped(sample: Sample, change: Callable[[tf.Tensor], tf.Tensor]) -> Sample:
    """Apply a change to the colours as float32 0..255, and clip the result."""
    image = change_colours(in_floats(sample).image, change)
    return sample._replace(image=tf.clip_by_value(image, 0.0, 255.0))


def adjust_brightness(sample: Sample, delta: tf.Tensor) -> Sample:
    """Add `delta`, a fraction of the full range."""
    return _clipped(sample, lambda image: image + 255.0 * delta)


def adjust_contrast(sample: Sample, factor: tf.Tensor) -> Sample:
    """Scale the difference to each channel's mean."""
    return _clipped(sample, lambda image: tf.image.adjust_contrast(image, factor))


def adjust_hue(sample: Sample, delta: tf.Tensor) -> Sample:
    """Rotate the hue by `delta`, a fraction of the full circle."""
    return _clipped(sample, lambda image: tf.image.adjust_hue(image, delta))


def adjust_saturation(sample: Sample, factor: tf.Tensor) -> Sample:
    """Scale the saturation."""
    return _clipped(sample, lambda image: tf.image.adjust_saturation(image, factor))


Adjustment = Callable[[Sample, tf.Tensor], Sample]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomAdjust:
    """Change brightness, contrast, hue or saturation by a random amount.

    Attributes:
        adjust: one of the functions above.
        min_delta: smallest amount.
        max_delta: largest amount.
    """

    adjust: Adjustment
    min_delta: float
    max_delta: float

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        return self.adjust(sample, scaled(uniforms(seed, 1)[0], self.min_delta, self.max_delta))


_BRIGHTNESS: tuple[Adjustment, float, float] = (adjust_brightness, -32.0 / 255.0, 32.0 / 255.0)
_CONTRAST: tuple[Adjustment, float, float] = (adjust_contrast, 0.5, 1.5)
_HUE: tuple[Adjustment, float, float] = (adjust_hue, -0.2, 0.2)
_SATURATION: tuple[Adjustment, float, float] = (adjust_saturation, 0.5, 1.5)
COLOR_ORDERINGS = {
    0: (_BRIGHTNESS, _SATURATION, _HUE, _CONTRAST),
    1: (_BRIGHTNESS, _CONTRAST, _SATURATION, _HUE),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomDistortColor:
    """Change brightness, contrast, saturation and hue strongly, as in SSD's training.

    Howard, "Some Improvements on Deep Convolutional Neural Network Based Image Classification", 2013,
    https://arxiv.org/abs/1312.5402, which SSD cites for its photometric distortions.

    Attributes:
        color_ordering: 0: brightness, saturation, hue, contrast; 1: brightness, contrast, saturation, hue.
    """

    color_ordering: int = 0

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws = uniforms(seed, 4)
        for number, (change, low, high) in enumerate(COLOR_ORDERINGS[self.color_ordering]):
            sample = change(sample, scaled(draws[number], low, high))
        return sample


def _grey(image: tf.Tensor) -> tf.Tensor:
    return tf.image.grayscale_to_rgb(tf.image.rgb_to_grayscale(image))


def to_gray(sample: Sample) -> Sample:
    """Convert the image to grey, with three equal channels."""
    return sample._replace(image=change_colours(sample.image, _grey))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomRGBtoGray:
    """Convert the image to grey, with three equal channels, at random."""

    probability: float = 0.1

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        return apply_with_probability(uniforms(seed, 1)[0], self.probability, to_gray, in_floats(sample))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RGBtoGray:
    """Convert the image to one grey channel."""

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        image = tf.cast(sample.image, tf.float32)
        return sample._replace(image=change_colours(image, tf.image.rgb_to_grayscale))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomPixelValueScale:
    """Multiply every value by a separate random factor."""

    minval: float = 0.9
    maxval: float = 1.1

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws = tf.random.stateless_uniform(colour_shape(sample.image), seed)
        return scale_values(sample, scaled(draws, self.minval, self.maxval))


def scale_values(sample: Sample, factors: tf.Tensor) -> Sample:
    """Multiply the image by factors, float32 [H, W, 3], and clip it to 0..255."""
    return _clipped(sample, lambda image: image * factors)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdjustGamma:
    """Apply gain * value ** gamma to values in 0..1."""

    gamma: float = 1.0
    gain: float = 1.0

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        return _clipped(sample, lambda image: 255.0 * self.gain * (image / 255.0) ** self.gamma)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NormalizeImage:
    """Map the original range of values linearly to the target range, without clipping."""

    original_minval: float
    original_maxval: float
    target_minval: float = 0.0
    target_maxval: float = 1.0

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        scale = (self.target_maxval - self.target_minval) / (self.original_maxval - self.original_minval)
        image = (tf.cast(sample.image, tf.float32) - self.original_minval) * scale + self.target_minval
        return sample._replace(image=image)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubtractChannelMean:
    """Subtract a constant from each channel."""

    means: tuple[float, ...]

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        return sample._replace(image=tf.cast(sample.image, tf.float32) - tf.constant(self.means))


def _bytes(values: tf.Tensor) -> tf.Tensor:
    """Clip to 0..255 and drop fractions."""
    return tf.cast(tf.clip_by_value(values, 0.0, 255.0), tf.uint8)


def blend(low: tf.Tensor, high: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Interpolate from `low` (factor 0) to `high` (factor 1); other factors extrapolate."""
    start = tf.cast(low, tf.float32)
    return _bytes(start + factor * (tf.cast(high, tf.float32) - start))


def solarize(image: tf.Tensor, threshold: tf.Tensor) -> tf.Tensor:
    """Invert values at or above the threshold, which is taken modulo 256."""
    return tf.where(image < tf.cast(tf.cast(threshold, tf.int32) % 256, tf.uint8), image, 255 - image)


def solarize_add(image: tf.Tensor, addition: tf.Tensor) -> tf.Tensor:
    """Add to values below 128."""
    return tf.where(image < 128, _bytes(tf.cast(image, tf.float32) + addition), image)


def posterize(image: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    """Keep the upper bits of every value, at least one."""
    dropped = tf.cast(8 - tf.maximum(tf.cast(bits, tf.int32), 1), tf.uint8)
    return tf.bitwise.left_shift(tf.bitwise.right_shift(image, dropped), dropped)


def enhance_colour(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Blend from the grey image (0) to the image (1) and beyond."""
    return blend(_grey(image), image, factor)


def enhance_contrast(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Blend from a uniform grey, the grey image's mean, (0) to the image (1) and beyond."""
    grey = tf.reduce_mean(tf.cast(tf.image.rgb_to_grayscale(image), tf.float32))
    return blend(tf.fill(tf.shape(image), _bytes(grey)), image, factor)


def enhance_brightness(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Blend from black (0) to the image (1) and beyond."""
    return blend(tf.zeros_like(image), image, factor)


def enhance_sharpness(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Blend from a smoothed image (0) to the image (1) and beyond; border pixels stay."""
    # Integers until the division, so that all processors round multiples of 13 to the same byte.
    kernel = tf.constant([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]])
    kernel = tf.tile(kernel[:, :, tf.newaxis, tf.newaxis], [1, 1, 3, 1])
    pixels = tf.cast(image, tf.float32)[tf.newaxis]
    smooth = _bytes(tf.nn.depthwise_conv2d(pixels, kernel, [1, 1, 1, 1], "SAME")[0] / 13.0)
    rows, columns = (tf.range(tf.shape(image)[axis]) for axis in (0, 1))
    inner = ((rows > 0) & (rows < tf.shape(image)[0] - 1))[:, tf.newaxis]
    inner &= (columns > 0) & (columns < tf.shape(image)[1] - 1)
    return blend(tf.where(inner[..., tf.newaxis], smooth, image), image, factor)


def autocontrast(image: tf.Tensor) -> tf.Tensor:
    """Stretch each channel to 0..255; a uniform channel is unchanged."""
    pixels = tf.cast(image, tf.float32)
    low, high = tf.reduce_min(pixels, axis=(0, 1)), tf.reduce_max(pixels, axis=(0, 1))
    scale = tf.math.divide_no_nan(255.0, high - low)
    return tf.where(high > low, _bytes(pixels * scale - low * scale), image)


def equalize(image: tf.Tensor) -> tf.Tensor:
    """Equalise the histogram of each channel."""
    return tf.stack([_equalized(image[..., channel]) for channel in range(3)], axis=-1)


def _equalized(channel: tf.Tensor) -> tf.Tensor:
    values = tf.cast(channel, tf.int32)
    counts = tf.math.bincount(tf.reshape(values, [-1]), minlength=256, maxlength=256)
    last = tf.reduce_max(tf.where(counts > 0, tf.range(256), 0))
    step = (tf.reduce_sum(counts) - tf.gather(counts, last)) // 255
    table = (tf.cumsum(counts, exclusive=True) + step // 2) // tf.maximum(step, 1)
    table = tf.where(tf.range(256) == 0, 0, tf.clip_by_value(table, 0, 255))
    return tf.where(step == 0, channel, tf.cast(tf.gather(table, values), tf.uint8))
