"""Two images shining through each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from detection_core.augment.augmentation import apply_with_probability, uniforms
from detection_core.augment.framing import joined_objects, place
from detection_core.augment.mixing import Mixing, unmixed
from detection_core.structures import Sample


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixUp(Mixing):
    """Blend an image with another, without a change of either's geometry.

    Both lie in the upper left of a frame that holds the two. The loss of each image's objects weighs as much
    as its pixels do.

    Zhang et al., "Bag of Freebies for Training Object Detection Neural Networks", 2019,
    https://arxiv.org/abs/1902.04103.

    Attributes:
        probability: of a blend.
        alpha: the image's part of the blend is drawn from Beta(alpha, alpha).
    """

    probability: float = 1.0
    alpha: float = 1.5

    def __call__(self, sample: Sample, partner: Callable[[int], Sample], seed: tf.Tensor) -> Sample:
        """Change the sample."""

        def blend(first: Sample) -> Sample:
            return blended(first, partner(0), self.part(tf.random.fold_in(seed, 1)))

        return apply_with_probability(uniforms(seed, 1)[0], self.probability, blend, unmixed(sample))

    def part(self, seed: tf.Tensor) -> tf.Tensor:
        """Draw how much of the image is seen, float32 []."""
        # Of two gamma variates, each one's part of their sum has a beta distribution.
        gammas = tf.random.stateless_gamma([2], seed, self.alpha)
        return tf.math.divide_no_nan(gammas[0], gammas[0] + gammas[1])


def blended(first: Sample, second: Sample, part: tf.Tensor) -> Sample:
    """Blend two samples.

    Args:
        first: the sample; its id stays.
        second: another.
        part: float32 [], how much of the first is seen, 0 to 1.
    """
    sizes = [tf.shape(sample.image)[:2] for sample in (first, second)]
    frame, corner = tf.maximum(*sizes), tf.zeros([2], tf.int32)
    samples = [
        place(sample, scaled=size, offset=corner, frame=frame)
        for sample, size in zip((first, second), sizes, strict=True)
    ]
    parts = (part, 1.0 - part)
    truths = [
        sample.truth._replace(weights=sample.truth.weights * weight)
        for sample, weight in zip(samples, parts, strict=True)
    ]
    image = samples[0].image * parts[0] + samples[1].image * parts[1]
    return first._replace(image=image, truth=joined_objects(truths))
