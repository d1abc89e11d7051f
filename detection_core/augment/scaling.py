"""Random image sizes: scaling, google/automl's scale jitter and large-scale jitter."""

import dataclasses
from typing import NamedTuple

import tensorflow as tf

from detection_core.augment.augmentation import in_floats, random_int, scaled, skip_with_probability, uniforms
from detection_core.augment.crops import Window, crop_image, crop_masks, fitting_size, place
from detection_core.ops.objects import end_at_last_pixel, hide_outside, with_keypoints
from detection_core.ops.resampling import Method, pad_bottom_right, resize_masks, resize_pixels
from detection_core.structures import GroundTruth, Sample


def resize(
    sample: Sample, size: tf.Tensor, method: Method = "BILINEAR", *, align_corners: bool = False
) -> Sample:
    """Resize image and masks to int32 [2] rows and columns; normalised boxes are unchanged."""
    size = tf.maximum(size, 1)
    masks = resize_masks(sample.truth.masks, size, align_corners=align_corners)
    image = resize_pixels(sample.image, size, method, align_corners=align_corners)
    return sample._replace(image=image, truth=sample.truth._replace(masks=masks))


def _scaled_size(sample: Sample, scale: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.cast(tf.shape(sample.image)[:2], tf.float32) * scale, tf.int32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomImageScale:
    """Scale the image by a random factor, keeping its aspect ratio."""

    min_scale_ratio: float = 0.5
    max_scale_ratio: float = 2.0

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        scale = scaled(uniforms(seed, 1)[0], self.min_scale_ratio, self.max_scale_ratio)
        return scale_image(sample, scale)


def scale_image(sample: Sample, scale: tf.Tensor) -> Sample:
    """Scale the image by a factor, with aligned corner samples."""
    return resize(sample, _scaled_size(sample, scale), align_corners=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResizeImage:
    """Stretch the image to one size."""

    new_height: int
    new_width: int
    method: Method = "BILINEAR"

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        return resize(sample, tf.constant([self.new_height, self.new_width]), self.method)


_METHODS: tuple[Method, ...] = ("BILINEAR", "NEAREST_NEIGHBOR", "BICUBIC", "AREA")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomResizeMethod:
    """Stretch the image to one size with a random interpolation method."""

    target_height: int
    target_width: int

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        size = tf.constant([self.target_height, self.target_width])
        choice = random_int(uniforms(seed, 1)[0], 0, len(_METHODS) - 1)
        return tf.switch_case(choice, [lambda m=m: resize(sample, size, m) for m in _METHODS])


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomDownscaleToTargetPixels:
    """Scale large images down, with a probability.

    Attributes:
        min_target_pixels: fewest pixels, rows times columns, to scale down to.
        max_target_pixels: most pixels.
        random_coef: probability of no change.
    """

    min_target_pixels: int = 300000
    max_target_pixels: int = 500000
    random_coef: float = 0.0

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws = uniforms(seed, 2)
        target = random_int(draws[1], self.min_target_pixels, self.max_target_pixels)
        return skip_with_probability(
            draws[0], self.random_coef, lambda s: downscale_to_pixels(s, target), in_floats(sample)
        )


def downscale_to_pixels(sample: Sample, target: tf.Tensor) -> Sample:
    """Scale down to about `target` pixels; smaller images are unchanged."""
    pixels = tf.reduce_prod(tf.shape(sample.image)[:2])
    scale = tf.sqrt(tf.cast(target, tf.float32) / tf.cast(pixels, tf.float32))
    return tf.cond(pixels > target, lambda: resize(sample, _scaled_size(sample, scale)), lambda: sample)


class Placement(NamedTuple):
    """Scaled rows and columns of the whole image, and those cut off above and to the left, int32 [2]."""

    scaled: tf.Tensor
    offset: tf.Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaleJitter:
    """Scale the image to a random part of a target size, then crop or pad it to the network's input.

    Tan et al., "EfficientDet: Scalable and Efficient Object Detection", 2020,
    https://arxiv.org/abs/1911.09070.

    Attributes:
        height: rows of the network's input.
        width: columns of the network's input.
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
        """Augment the sample."""
        placement = self.placement(tf.shape(sample.image)[:2], uniforms(seed, 3))
        return self.placed(sample, placement)

    def placement(self, size: tf.Tensor, draws: tf.Tensor) -> Placement:
        """Choose scale and offset for an image of int32 [2] `size`.

        `draws` are float32 [3] of [0, 1): the factor, and the crop's position down and right.
        """
        target = tf.constant([self.target_height or self.height, self.target_width or self.width], tf.float32)
        factor = scaled(draws[0], self.scale_min, self.scale_max)
        wanted = tf.cast(tf.cast(factor * target, tf.int32), tf.float32)
        sides = tf.cast(size, tf.float32)
        whole = tf.maximum(tf.cast(sides * tf.reduce_min(wanted / sides), tf.int32), 1)
        room = tf.maximum(tf.cast(whole - [self.height, self.width], tf.float32), 0.0)
        return Placement(whole, tf.cast(room * draws[1:], tf.int32))

    def placed(self, sample: Sample, placement: Placement) -> Sample:
        """Return the sample in the network's input; objects without area are dropped."""
        side = tf.constant([self.height, self.width])
        window = Window(placement.offset, tf.minimum(placement.scaled - placement.offset, side))
        image = resize_pixels(sample.image, placement.scaled, half_pixel_centers=True)
        masks = resize_masks(sample.truth.masks, placement.scaled, half_pixel_centers=True)
        image, masks = crop_image(image, window), crop_masks(masks, window)
        image, masks = pad_bottom_right(image, masks, side, self.per_channel_pad_value)
        truth = sample.truth._replace(masks=masks)
        image = tf.ensure_shape(image, [self.height, self.width, sample.image.shape[-1]])
        return sample._replace(image=image, truth=_placed_objects(truth, placement, side))


def _placed_objects(truth: GroundTruth, placement: Placement, side: tf.Tensor) -> GroundTruth:
    """Convert boxes and keypoints to the frame; boxes end at its last pixel."""
    size, offset = tf.cast(side, tf.float32), tf.cast(placement.offset, tf.float32)
    scaled_size = tf.cast(placement.scaled, tf.float32)
    pixels = truth.boxes * tf.tile(scaled_size, [2]) - tf.tile(offset, [2])
    keypoints = (truth.keypoints * scaled_size - offset) / size
    truth = truth._replace(boxes=pixels / tf.tile(size, [2]))
    truth = with_keypoints(truth, hide_outside(keypoints, tf.constant([0.0, 0.0, 1.0, 1.0])))
    return end_at_last_pixel(truth, size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LargeScaleJitter:
    """Scale the image to a random part or multiple of a frame, then crop or pad it to the frame.

    Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation", 2021,
    https://arxiv.org/abs/2012.07177. They introduced the name and found that it needs long training.
    `scale_jitter` is google/automl's variant: boxes end one pixel before the frame's end, and mostly hidden
    objects stay.

    Attributes:
        height: rows of the frame.
        width: columns of the frame.
        scale_min: smallest factor, relative to the size that fits the frame.
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
        """Augment the sample."""
        draws = uniforms(seed, 3)
        frame = tf.constant([self.height, self.width])
        whole = fitting_size(sample, frame, scaled(draws[0], self.scale_min, self.scale_max))
        room = tf.cast(tf.maximum(whole - frame, 0), tf.float32)
        found = place(
            sample,
            scaled=whole,
            offset=-tf.cast(tf.round(room * draws[1:]), tf.int32),
            frame=frame,
            min_visible=self.min_visible,
            pad_value=self.per_channel_pad_value,
        )
        shape = [self.height, self.width, sample.image.shape[-1]]
        return found._replace(image=tf.ensure_shape(found.image, shape))
