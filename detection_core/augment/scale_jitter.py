"""Scale jitter as google/automl's EfficientDet has it."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import tensorflow as tf

from detection_core.augment.augmentation import scaled, uniforms
from detection_core.augment.crops import Window, crop_image, crop_masks
from detection_core.ops.keypoints import hide_outside, with_keypoints
from detection_core.ops.objects import end_at_last_pixel
from detection_core.ops.padding import pad_bottom_right, pad_masks_bottom_right
from detection_core.ops.resampling import resize_masks, resize_pixels
from detection_core.structures import GroundTruth, Sample


class Placement(NamedTuple):
    """Where an image comes to lie in the network's input.

    Attributes:
        scaled: int32 [2], rows and columns of the whole image once scaled.
        offset: int32 [2], rows and columns that are cut off above and to the left.
    """

    scaled: tf.Tensor
    offset: tf.Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaleJitter:
    """Scale the image to a random part of a target size, then cut or pad it to fill the network's input.

    Tan et al., "EfficientDet: Scalable and Efficient Object Detection", 2020,
    https://arxiv.org/abs/1911.09070.

    Attributes:
        height: rows of the network's input.
        width: columns of it.
        target_height: rows that the factor multiplies; 0: `height`.
        target_width: columns; 0: `width`.
        scale_min: smallest factor.
        scale_max: largest factor.
        per_channel_pad_value: colour of the padding; empty: 0.
    """

    height: int = 512
    width: int = 512
    target_height: int = 0
    target_width: int = 0
    scale_min: float = 0.1
    scale_max: float = 2.0
    per_channel_pad_value: tuple[float, ...] = ()

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        placement = self.placement(tf.shape(sample.image)[:2], uniforms(seed, 3))
        return self.placed(sample, placement)

    def placement(self, size: tf.Tensor, draws: tf.Tensor) -> Placement:
        """Choose scale and offset.

        Args:
            size: int32 [2], rows and columns of the image.
            draws: float32 [3] of [0, 1): the factor, and how far down and right the cut lies.
        """
        target = tf.constant([self.target_height or self.height, self.target_width or self.width], tf.float32)
        factor = scaled(draws[0], self.scale_min, self.scale_max)
        wanted = tf.cast(tf.cast(factor * target, tf.int32), tf.float32)
        sides = tf.cast(size, tf.float32)
        whole = tf.maximum(tf.cast(sides * tf.reduce_min(wanted / sides), tf.int32), 1)
        room = tf.maximum(tf.cast(whole - [self.height, self.width], tf.float32), 0.0)
        return Placement(whole, tf.cast(room * draws[1:], tf.int32))

    def placed(self, sample: Sample, placement: Placement) -> Sample:
        """Return the sample as it lies in the network's input; objects without area are left out."""
        side = tf.constant([self.height, self.width])
        window = Window(placement.offset, tf.minimum(placement.scaled - placement.offset, side))
        image = resize_pixels(sample.image, placement.scaled, half_pixel_centers=True)
        image = pad_bottom_right(crop_image(image, window), side, self.per_channel_pad_value)
        masks = resize_masks(sample.truth.masks, placement.scaled, half_pixel_centers=True)
        truth = sample.truth._replace(masks=pad_masks_bottom_right(crop_masks(masks, window), side))
        image = tf.ensure_shape(image, [self.height, self.width, 3])
        return sample._replace(image=image, truth=_placed_objects(truth, placement, side))


def _placed_objects(truth: GroundTruth, placement: Placement, side: tf.Tensor) -> GroundTruth:
    """Bring boxes and keypoints into the frame; boxes end one pixel before its end."""
    size, offset = tf.cast(side, tf.float32), tf.cast(placement.offset, tf.float32)
    scaled_size = tf.cast(placement.scaled, tf.float32)
    pixels = truth.boxes * tf.tile(scaled_size, [2]) - tf.tile(offset, [2])
    keypoints = (truth.keypoints * scaled_size - offset) / size
    truth = truth._replace(boxes=pixels / tf.tile(size, [2]))
    truth = with_keypoints(truth, hide_outside(keypoints, tf.constant([0.0, 0.0, 1.0, 1.0])))
    return end_at_last_pixel(truth, size)
