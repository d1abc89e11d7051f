"""Changes of every pixel's tone that learned policies are made of; uint8 [h, w, 3] in and out.

They imitate Pillow's `ImageOps` and `ImageEnhance`, with the roundings that published policies were learned
with. Those of `augment.colour` work on float32 and mean something else by a factor.

Cubuk et al., "AutoAugment: Learning Augmentation Policies from Data", 2019,
https://arxiv.org/abs/1805.09501.
"""

from __future__ import annotations

import tensorflow as tf


def _bytes(values: tf.Tensor) -> tf.Tensor:
    """Clip to 0..255 and drop fractions."""
    return tf.cast(tf.clip_by_value(values, 0.0, 255.0), tf.uint8)


def blend(low: tf.Tensor, high: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Mix two images: `low` at factor 0, `high` at 1, and beyond both outside of that."""
    start = tf.cast(low, tf.float32)
    return _bytes(start + factor * (tf.cast(high, tf.float32) - start))


def solarize(image: tf.Tensor, threshold: tf.Tensor) -> tf.Tensor:
    """Invert values that reach the threshold, which is taken modulo 256."""
    return tf.where(image < tf.cast(tf.cast(threshold, tf.int32) % 256, tf.uint8), image, 255 - image)


def solarize_add(image: tf.Tensor, addition: tf.Tensor) -> tf.Tensor:
    """Add to values below 128."""
    return tf.where(image < 128, _bytes(tf.cast(image, tf.float32) + addition), image)


def posterize(image: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    """Keep the upper bits of every value, at least one."""
    dropped = tf.cast(8 - tf.maximum(tf.cast(bits, tf.int32), 1), tf.uint8)
    return tf.bitwise.left_shift(tf.bitwise.right_shift(image, dropped), dropped)


def enhance_colour(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Move between the grey image (0) and the image (1), and beyond it."""
    grey = tf.image.grayscale_to_rgb(tf.image.rgb_to_grayscale(image))
    return blend(grey, image, factor)


def enhance_contrast(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Move between an even grey, the mean of the grey image, (0) and the image (1), and beyond it."""
    grey = tf.reduce_mean(tf.cast(tf.image.rgb_to_grayscale(image), tf.float32))
    return blend(tf.fill(tf.shape(image), _bytes(grey)), image, factor)


def enhance_brightness(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Move between black (0) and the image (1), and beyond it."""
    return blend(tf.zeros_like(image), image, factor)


def enhance_sharpness(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Move between a smoothed image (0) and the image (1), and beyond it; the outermost pixels stay."""
    # Whole numbers until the division, so that every processor rounds a multiple of 13 to the same byte.
    kernel = tf.constant([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]])
    kernel = tf.tile(kernel[:, :, tf.newaxis, tf.newaxis], [1, 1, 3, 1])
    pixels = tf.cast(image, tf.float32)[tf.newaxis]
    smooth = _bytes(tf.nn.depthwise_conv2d(pixels, kernel, [1, 1, 1, 1], "SAME")[0] / 13.0)
    rows, columns = (tf.range(tf.shape(image)[axis]) for axis in (0, 1))
    inner = ((rows > 0) & (rows < tf.shape(image)[0] - 1))[:, tf.newaxis]
    inner &= (columns > 0) & (columns < tf.shape(image)[1] - 1)
    return blend(tf.where(inner[..., tf.newaxis], smooth, image), image, factor)


def autocontrast(image: tf.Tensor) -> tf.Tensor:
    """Stretch each channel so that its darkest value is 0 and its lightest 255; an even one stays."""
    pixels = tf.cast(image, tf.float32)
    low, high = tf.reduce_min(pixels, axis=(0, 1)), tf.reduce_max(pixels, axis=(0, 1))
    scale = tf.math.divide_no_nan(255.0, high - low)
    return tf.where(high > low, _bytes(pixels * scale - low * scale), image)


def equalize(image: tf.Tensor) -> tf.Tensor:
    """Spread the values of each channel so that their histogram becomes even."""
    return tf.stack([_equalized(image[..., channel]) for channel in range(3)], axis=-1)


def _equalized(channel: tf.Tensor) -> tf.Tensor:
    values = tf.cast(channel, tf.int32)
    counts = tf.math.bincount(tf.reshape(values, [-1]), minlength=256, maxlength=256)
    last = tf.reduce_max(tf.where(counts > 0, tf.range(256), 0))
    step = (tf.reduce_sum(counts) - tf.gather(counts, last)) // 255
    table = (tf.cumsum(counts, exclusive=True) + step // 2) // tf.maximum(step, 1)
    table = tf.where(tf.range(256) == 0, 0, tf.clip_by_value(table, 0, 255))
    return tf.where(step == 0, channel, tf.cast(tf.gather(table, values), tf.uint8))
