"""What an augmentation step is, the chain of them, and their randomness.

A step is a frozen dataclass of its options that takes a sample and a seed. All randomness is stateless: the
same sample and seed give the same result whatever ran before and in whatever thread, so that a resumed run
sees what an uninterrupted one would have seen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Protocol

import tensorflow as tf

from detection_core.structures import Sample


class Augmentation(Protocol):
    """A step: sample and int64 [2] seed in, changed sample out; fields of the truth stay in step."""

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample; image uint8 or float32 [H, W, 3], 0..255, boxes normalised to it."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Augmentations:
    """Steps applied one after another, each with its own stream of random numbers.

    Attributes:
        steps: in the order of application.
    """

    steps: tuple[Augmentation, ...] = ()

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Apply all steps."""
        for number, step in enumerate(self.steps):
            sample = step(sample, tf.random.fold_in(seed, number))
        return sample


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneOf:
    """Apply one of several steps, each with equal chance.

    Attributes:
        steps: to choose from; all must give images of one dtype.
    """

    steps: tuple[Augmentation, ...]

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        choice = whole(uniforms(seed, 1)[0], 0, len(self.steps) - 1)
        step_seed = tf.random.fold_in(seed, 1)
        return tf.switch_case(choice, [lambda step=step: step(sample, step_seed) for step in self.steps])


def uniforms(seed: tf.Tensor, count: int) -> tf.Tensor:
    """Return float32 [count], each in [0, 1)."""
    return tf.random.stateless_uniform([count], seed)


def scaled(draw: tf.Tensor, low: float | tf.Tensor, high: float | tf.Tensor) -> tf.Tensor:
    """Bring a draw from [0, 1) to [low, high)."""
    return low + draw * (high - low)


def whole(draw: tf.Tensor, low: tf.Tensor | int, high: tf.Tensor | int) -> tf.Tensor:
    """Bring a draw from [0, 1) to a whole number, int32, of low..high, both included."""
    low, high = tf.cast(low, tf.int32), tf.cast(high, tf.int32)
    numbers = tf.cast(tf.floor(draw * tf.cast(high - low + 1, tf.float32)), tf.int32)
    return tf.clip_by_value(low + numbers, low, high)


def maybe(taken: tf.Tensor, change: Callable[[Sample], Sample], sample: Sample) -> Sample:
    """Return the changed sample where `taken`, bool [], else the sample."""
    return tf.cond(taken, lambda: change(sample), lambda: sample)
