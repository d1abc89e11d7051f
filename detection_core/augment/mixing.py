"""Augmentations that make one image of several, and the chain that has them among the others.

The other images come out of a pool: those that follow the image in the order of the training. What is drawn
depends on the image's own seed alone, so that neither threads nor the step at which a training is resumed
change it. An image of the pool has gone through all steps before the one that mixes, with a seed of its own:
it is never the same picture twice.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable

import tensorflow as tf

from detection_core.augment.augmentation import Augmentation
from detection_core.structures import Sample

# Separates the streams of an image's partners from those of its own steps.
_PARTNER = 1_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pool:
    """Samples to mix.

    Attributes:
        size: int64 [], how many there are, at least 1.
        read: number of a sample, int64 [], to the sample as decoded; 0 is the one that is changed.
    """

    size: tf.Tensor
    read: Callable[[tf.Tensor], Sample]


class Mixing(ABC):
    """An augmentation that takes further samples."""

    @abstractmethod
    def __call__(self, sample: Sample, partner: Callable[[int], Sample], seed: tf.Tensor) -> Sample:
        """Change the sample.

        Args:
            sample: image uint8 or float32 [H, W, 3], 0..255, boxes normalised to it.
            partner: number from 0 to another sample, a different one for each number where the pool has
                as many. What is not asked for is not computed.
            seed: int64 [2].

        Returns:
            The sample, its image float32; the fields of the truth keep their common order.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixedAugmentations:
    """Augmentations applied one after another, of which some mix.

    Attributes:
        steps: in the order of application.
    """

    steps: tuple[Augmentation | Mixing, ...]

    def __call__(self, pool: Pool, seed: tf.Tensor, *, mixes: tf.Tensor) -> Sample:
        """Apply all of them to sample 0 of a pool.

        Args:
            pool: the sample, and what it may be mixed with.
            seed: int64 [2].
            mixes: bool []; False leaves out the steps that mix.
        """
        return self._changed(len(self.steps), pool, tf.constant(0, tf.int64), seed, mixes)

    def _changed(
        self, count: int, pool: Pool, number: tf.Tensor, seed: tf.Tensor, mixes: tf.Tensor
    ) -> Sample:
        """Return a sample of the pool after the first `count` steps."""
        sample = pool.read(number)
        for i, step in enumerate(self.steps[:count]):
            own = tf.random.fold_in(seed, i)
            if not isinstance(step, Mixing):
                sample = step(sample, own)
                continue
            partner = self._partners(i, pool, number, own, mixes)
            sample = tf.cond(
                mixes,
                lambda s=sample, step=step, partner=partner, own=own: step(s, partner, own),
                lambda s=sample: unmixed(s),
            )
        return sample

    def _partners(
        self, count: int, pool: Pool, number: tf.Tensor, seed: tf.Tensor, mixes: tf.Tensor
    ) -> Callable[[int], Sample]:
        """Return what gives the partners of a sample, each after the first `count` steps."""

        def partner(i: int) -> Sample:
            own = tf.random.fold_in(seed, _PARTNER + i)
            return self._changed(count, pool, partner_number(pool.size, number, i, seed), own, mixes)

        return partner


def partner_number(size: tf.Tensor, number: tf.Tensor, i: int, seed: tf.Tensor) -> tf.Tensor:
    """Draw the partner `i` of the sample `number` of a pool, int64 []; itself where it is alone in it."""
    order = tf.random.experimental.stateless_shuffle(tf.range(1, size), tf.random.fold_in(seed, _PARTNER - 1))
    return tf.cond(
        size > 1,
        lambda: (number + order[tf.cast(i, tf.int64) % (size - 1)]) % size,
        lambda: tf.identity(number),
    )


def unmixed(sample: Sample) -> Sample:
    """Return the sample as what mixes would give it: with a float32 image."""
    return sample._replace(image=tf.cast(sample.image, tf.float32))
