"""Large-scale jitter."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.augment.augmentation import scaled, uniforms
from detection_core.augment.framing import place
from detection_core.structures import Sample


@dataclasses.dataclass(frozen=True, kw_only=True)
class LargeScaleJitter:
    """Scale the image to a random part or multiple of a frame, then cut or pad it to fill the frame.

    Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation", 2021,
    https://arxiv.org/abs/2012.07177, call it so and find that it needs long trainings. `scale_jitter` is
    google/automl's form of it, whose boxes end a pixel before the frame; objects that are mostly cut off stay
    there.

    Attributes:
        height: rows of the frame.
        width: columns of it.
        scale_min: smallest factor, of what fits the frame.
        scale_max: largest factor.
        min_visible: an object stays if at least this fraction of its box is in the frame.
        per_channel_pad_value: R, G and B below and to the right of a small image; none: 0.
    """

    height: int = 1024
    width: int = 1024
    scale_min: float = 0.1
    scale_max: float = 2.0
    min_visible: float = 0.1
    per_channel_pad_value: tuple[float, ...] = ()

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        draws = uniforms(seed, 3)
        frame = tf.constant([self.height, self.width])
        size = tf.cast(tf.shape(sample.image)[:2], tf.float32)
        factor = scaled(draws[0], self.scale_min, self.scale_max)
        fitting = tf.reduce_min(tf.cast(frame, tf.float32) / size)
        whole = tf.maximum(tf.cast(tf.round(size * fitting * factor), tf.int32), 1)
        room = tf.cast(tf.maximum(whole - frame, 0), tf.float32)
        found = place(
            sample,
            scaled=whole,
            offset=-tf.cast(tf.round(room * draws[1:]), tf.int32),
            frame=frame,
            min_visible=self.min_visible,
            pad_value=self.per_channel_pad_value,
        )
        return found._replace(image=tf.ensure_shape(found.image, [self.height, self.width, 3]))
