"""Images of rare classes read several times an epoch.

Gupta, Dollár and Girshick, "LVIS: A Dataset for Large Vocabulary Instance Segmentation", 2019,
https://arxiv.org/abs/1908.03195: a class that is in a fraction f of the images has the repeat factor
max(1, sqrt(t / f)), an image the largest factor of its classes.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

# Factors are counted in this fraction of an image, so that sums do not depend on the order of the images.
_ONE = 1 << 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class RepeatFactors:
    """How often images are read in an epoch.

    Attributes:
        of_class: factor of each class, in 1 / 4096.
        total: the sum of all images' factors.
    """

    of_class: tuple[int, ...]
    total: int

    @property
    def examples(self) -> int:
        """The length of an epoch, repeats included."""
        return -(-self.total // _ONE)

    def of_image(self, classes: tf.Tensor) -> tf.Tensor:
        """Return the factor of an image, int64 [], in 1 / 4096.

        Args:
            classes: int [G], of its objects; those below 0 do not count.
        """
        table = tf.constant([_ONE, *self.of_class], tf.int64)
        rows = tf.clip_by_value(tf.cast(classes, tf.int64) + 1, 0, len(self.of_class))
        return tf.reduce_max(tf.gather(table, tf.concat([tf.constant([0], tf.int64), rows], 0)))

    def repeated(self, elements: tf.data.Dataset, seed: tf.Tensor) -> tf.data.Dataset:
        """Return the elements of an epoch, each as often as its factor says, rounded up or down at random.

        Args:
            elements: pairs of anything and the factor of its image, as `of_image` gives it.
            seed: int64 [2], of the epoch.

        Returns:
            What the pairs begin with, exactly `examples` of it.
        """
        # Systematic sampling: the factors are laid end to end, with equal marks from a random offset on, as
        # many as an epoch has examples. An image is read once for each mark in its stretch.
        offset = tf.random.stateless_uniform([], seed, minval=0, maxval=self.total, dtype=tf.int64)
        counted = elements.scan(offset, self._marks)
        return counted.flat_map(lambda one, times: tf.data.Dataset.from_tensors(one).repeat(times))

    def _marks(self, start: tf.Tensor, pair: Any) -> tuple[tf.Tensor, tuple[Any, tf.Tensor]]:
        """Count the marks in the stretch of an image."""
        element, factor = pair
        end = start + factor * self.examples
        return end, (element, end // self.total - start // self.total)


def find_repeat_factors(classes: Iterable[np.ndarray], threshold: float) -> RepeatFactors:
    """Measure how often classes occur and give each its factor.

    Args:
        classes: int [G] of each image; those below 0 do not count.
        threshold: t, the fraction of images below which a class is rare.
    """
    sets = Counter(frozenset(np.unique(of_image[of_image >= 0]).tolist()) for of_image in classes)
    images = sum(sets.values())
    within: Counter[int] = Counter()
    for of_image, count in sets.items():
        within.update({number: count for number in of_image})
    factors = [
        round(_ONE * max(1.0, (threshold * images / within[number]) ** 0.5)) if number in within else _ONE
        for number in range(max(within, default=-1) + 1)
    ]
    total = sum(count * max([_ONE, *(factors[c] for c in of_image)]) for of_image, count in sets.items())
    return RepeatFactors(of_class=tuple(factors), total=max(1, total))
