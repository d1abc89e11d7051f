"""What pixels are turned into before a backbone sees them."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

CHANNEL_MEANS = (123.68, 116.779, 103.939)
IMAGENET_MEANS = (0.485, 0.456, 0.406)
IMAGENET_DEVIATIONS = (0.229, 0.224, 0.225)


def to_unit_range(pixels: tf.Tensor) -> tf.Tensor:
    """Map 0..255 to -1..1."""
    return (2.0 / 255.0) * pixels - 1.0


def subtract_channel_means(pixels: tf.Tensor) -> tf.Tensor:
    """Subtract the mean colour of ImageNet, in pixel units."""
    return pixels - tf.constant(CHANNEL_MEANS)


def standardize(pixels: tf.Tensor) -> tf.Tensor:
    """Subtract ImageNet's mean colour and divide by its deviation, after scaling to 0..1."""
    return (pixels / 255.0 - tf.constant(IMAGENET_MEANS)) / tf.constant(IMAGENET_DEVIATIONS)


PREPROCESSORS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "unit_range": to_unit_range,
    "channel_means": subtract_channel_means,
    "standardize": standardize,
}
