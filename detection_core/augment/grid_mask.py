"""Grid mask, as google/automl's EfficientDet has it.

Chen et al., "GridMask Data Augmentation", 2020, https://arxiv.org/abs/2001.04086.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.augment.augmentation import random_int, uniforms
from detection_core.augment.warps import rotation
from detection_core.structures import Sample


@dataclasses.dataclass(frozen=True, kw_only=True)
class GridMask:
    """Blacken the squares between the bars of a turned grid, on some images.

    Attributes:
        threshold: the mask is applied where a draw of the standard normal distribution is below.
        ratio: width of a bar as a fraction of the grid's period; 1: a random one.
        rotate: degrees by which a normal draw with mean -1 and deviation 1 is multiplied.
        gridmask_size_ratio: by how much of the image's longer side the grid is larger than that.
    """

    threshold: float = 0.5
    ratio: float = 0.6
    rotate: float = 10.0
    gridmask_size_ratio: float = 0.5

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        normal = tf.random.stateless_normal([2], seed)
        draws = uniforms(tf.random.fold_in(seed, 1), 4)
        size = tf.shape(sample.image)[:2]

        def masked() -> tf.Tensor:
            mask = turned(self.mask(size, draws), self.rotate * (normal[1] - 1.0))
            return sample.image * tf.cast(centre_of(mask, size), sample.image.dtype)[..., tf.newaxis]

        image = tf.cond(normal[0] < self.threshold, masked, lambda: sample.image)
        return sample._replace(image=tf.ensure_shape(image, sample.image.shape))

    def mask(self, size: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
        """Return the grid: int32 [s, s], 1 in the bars.

        Args:
            size: int32 [2], rows and columns of the image.
            draws: float32 [4] of [0, 1): the grid's period, the width of a bar where it is random, where the
                bars across and those down begin.
        """
        height, width = tf.unstack(tf.cast(size, tf.float32))
        side = tf.cast((1.0 + self.gridmask_size_ratio) * tf.maximum(height, width), tf.int32)
        low, high = (tf.cast(f(height * 0.5, width * 0.3), tf.int32) for f in (tf.minimum, tf.maximum))
        period = tf.maximum(random_int(draws[0], low, high), 1)
        bar = self._bar(period, draws[1])
        offsets = random_int(draws[2:], 0, period)
        # Bars begin in whole periods of the grid alone; the last of them may be cut.
        places = tf.range(side)[tf.newaxis] - offsets[:, tf.newaxis]
        inside = (places >= 0) & (places // period < side // period) & (places % period < bar)
        return tf.cast(inside[0][:, tf.newaxis] | inside[1][tf.newaxis], tf.int32)

    def _bar(self, period: tf.Tensor, draw: tf.Tensor) -> tf.Tensor:
        if self.ratio == 1:
            return random_int(draw, 1, period)
        wanted = tf.cast(tf.cast(period, tf.float32) * self.ratio + 0.5, tf.int32)
        return tf.minimum(tf.maximum(wanted, 1), period - 1)


def turned(mask: tf.Tensor, degrees: tf.Tensor) -> tf.Tensor:
    """Turn int32 [s, s] counter-clockwise round its middle; what comes from outside is 0."""
    warp = rotation(tf.shape(mask), degrees)
    flat = tf.concat([tf.reshape(warp, [6]), tf.zeros([2])], 0)
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=mask[tf.newaxis, ..., tf.newaxis],
        transforms=flat[tf.newaxis],
        output_shape=tf.shape(mask),
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
        fill_value=0.0,
    )[0, ..., 0]


def centre_of(mask: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Cut the middle of int32 [2] `size` out of [s, s]."""
    return tf.slice(mask, (tf.shape(mask) - size) // 2, size)
