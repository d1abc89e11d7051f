"""The augmentation interface, chains of augmentations, and their randomness.

An augmentation is a frozen dataclass of options, called with a sample and a seed. All randomness is
stateless: the result depends only on sample and seed. So a resumed run sees the same images as an
uninterrupted one.
"""

import dataclasses
from collections.abc import Callable
from typing import Protocol

import tensorflow as tf

from detection_core.structures import Sample


class Augmentation(Protocol):
    """Maps a sample and an int64 [2] seed to a changed sample; the truth's fields keep their common order."""

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample; image uint8 or float32 [H, W, 3], 0..255, boxes normalised to it."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Augmentations:
    """Augmentations applied in the given order, each with a separate random stream."""

    augmentations: tuple[Augmentation, ...] = ()

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Apply all augmentations."""
        for number, augmentation in enumerate(self.augmentations):
            sample = augmentation(sample, tf.random.fold_in(seed, number))
        return sample


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneOf:
    """Apply one of several augmentations, each with equal probability; all give images of one dtype."""

    augmentations: tuple[Augmentation, ...]

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        choice = random_int(uniforms(seed, 1)[0], 0, len(self.augmentations) - 1)
        own_seed = tf.random.fold_in(seed, 1)
        return tf.switch_case(choice, [lambda a=a: a(sample, own_seed) for a in self.augmentations])


def uniforms(seed: tf.Tensor, count: int) -> tf.Tensor:
    """Return float32 [count], each in [0, 1)."""
    return tf.random.stateless_uniform([count], seed)


def scaled(draw: tf.Tensor, low: float | tf.Tensor, high: float | tf.Tensor) -> tf.Tensor:
    """Map a draw from [0, 1) to [low, high)."""
    return low + draw * (high - low)


def in_floats(sample: Sample) -> Sample:
    """Return the sample with a float32 image."""
    return sample._replace(image=tf.cast(sample.image, tf.float32))


def random_int(draw: tf.Tensor, low: tf.Tensor | int, high: tf.Tensor | int) -> tf.Tensor:
    """Map a draw from [0, 1) to an int32 integer in low..high, both included."""
    low, high = tf.cast(low, tf.int32), tf.cast(high, tf.int32)
    numbers = tf.cast(tf.floor(draw * tf.cast(high - low + 1, tf.float32)), tf.int32)
    return tf.clip_by_value(low + numbers, low, high)


def apply_with_probability(
    draw: tf.Tensor, probability: tf.Tensor | float, change: Callable[[Sample], Sample], sample: Sample
) -> Sample:
    """Apply `change` with a probability; `draw` is float32 [], from [0, 1)."""
    return tf.cond(draw < probability, lambda: change(sample), lambda: sample)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomApply:
    """Apply a change that needs no random numbers, with a probability."""

    change: Callable[[Sample], Sample]
    probability: float = 0.5

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        return apply_with_probability(uniforms(seed, 1)[0], self.probability, self.change, sample)


def skip_with_probability(
    draw: tf.Tensor, probability: tf.Tensor | float, change: Callable[[Sample], Sample], sample: Sample
) -> Sample:
    """Apply a change except with a probability (an option `random_coef`); see `apply_with_probability`."""
    return tf.cond(draw > probability, lambda: change(sample), lambda: sample)
