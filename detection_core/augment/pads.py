"""Padding at random offsets, and square crops of scaled images."""

import dataclasses

import tensorflow as tf

from detection_core.augment import crops
from detection_core.augment.augmentation import random_int, scaled, uniforms
from detection_core.ops.resampling import canvas_colour, resize_pixels
from detection_core.structures import Sample

Colour = tuple[float, float, float] | tuple[()]


def pad(sample: Sample, size: tf.Tensor, offset: tf.Tensor, colour: Colour = ()) -> Sample:
    """Put the image on a larger canvas, at an offset.

    `size` and `offset` are int32 [2], rows and columns. An empty colour, 0..255, means the image's mean
    colour.
    """
    image, truth = tf.cast(sample.image, tf.float32), sample.truth
    room = tf.stack([offset, size - offset - tf.shape(image)[:2]], axis=1)
    canvas = canvas_colour(colour, image) if colour else tf.reduce_mean(image, axis=(0, 1))
    frame = tf.cast(tf.concat([-offset, size - offset], 0), tf.float32)
    window = frame / tf.cast(tf.tile(tf.shape(image)[:2], [2]), tf.float32)
    truth = crops.truth_in_window(truth, window)._replace(masks=crops.pad_masks(truth.masks, room))
    return sample._replace(image=crops.pad_image(image - canvas, room) + canvas, truth=truth)


def pad_at_random(
    sample: Sample, seed: tf.Tensor, *, smallest: tf.Tensor, largest: tf.Tensor, colour: Colour
) -> Sample:
    """Put the image at a random position on a canvas of random size.

    `smallest` and `largest`, int32 [2], are raised to the image's rows and columns. An empty colour means the
    image's mean colour.
    """
    draws, image_size = uniforms(seed, 4), tf.shape(sample.image)[:2]
    largest = tf.maximum(largest, image_size)
    smallest = tf.clip_by_value(smallest, image_size, largest)
    size = random_int(draws[:2], smallest, largest)
    return pad(sample, size, random_int(draws[2:], 0, size - image_size), colour)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomPadImage:
    """Put the image at a random position on a larger canvas.

    Attributes:
        min_image_size: smallest canvas, rows and columns; empty: the image's size.
        max_image_size: largest canvas; empty: twice the image's size.
        pad_color: of the canvas, 0..255; empty: the image's mean colour.
    """

    min_image_size: tuple[int, int] | tuple[()] = ()
    max_image_size: tuple[int, int] | tuple[()] = ()
    pad_color: Colour = ()

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        size = tf.shape(sample.image)[:2]
        return pad_at_random(
            sample,
            seed,
            smallest=tf.constant(self.min_image_size) if self.min_image_size else size,
            largest=tf.constant(self.max_image_size) if self.max_image_size else 2 * size,
            colour=self.pad_color,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomAbsolutePadImage:
    """Add a random number of rows and columns around the image.

    Attributes:
        max_height_padding: most rows to add.
        max_width_padding: most columns to add.
        pad_color: of the canvas, 0..255; empty: the image's mean colour.
    """

    max_height_padding: int = 1
    max_width_padding: int = 1
    pad_color: Colour = ()

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        size = tf.shape(sample.image)[:2]
        largest = size + tf.constant([self.max_height_padding, self.max_width_padding])
        return pad_at_random(sample, seed, smallest=size, largest=largest, colour=self.pad_color)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomCropPadImage:
    """Crop a random window, then put it at a random position on a canvas.

    Attributes:
        crop: the crop, which may be skipped; the padding is always applied.
        min_padded_size_ratio: smallest canvas, as fractions of the rows and columns before the crop.
        max_padded_size_ratio: largest canvas, as fractions of the same.
        pad_color: of the canvas, 0..255; empty: the crop's mean colour.
    """

    crop: crops.RandomCropImage = dataclasses.field(default_factory=crops.RandomCropImage)
    min_padded_size_ratio: tuple[float, float] = (1.0, 1.0)
    max_padded_size_ratio: tuple[float, float] = (2.0, 2.0)
    pad_color: Colour = ()

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        size = tf.cast(tf.shape(sample.image)[:2], tf.float32)
        return pad_at_random(
            self.crop(sample, seed),
            tf.random.fold_in(seed, 2),
            smallest=tf.cast(size * tf.constant(self.min_padded_size_ratio), tf.int32),
            largest=tf.cast(size * tf.constant(self.max_padded_size_ratio), tf.int32),
            colour=self.pad_color,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomPadToAspectRatio:
    """Pad below and to the right, with black, to an aspect ratio.

    Attributes:
        aspect_ratio: width / height of the result.
        min_padded_size_ratio: smallest canvas, as fractions of the image's rows and columns.
        max_padded_size_ratio: largest canvas, as fractions of the same.
    """

    aspect_ratio: float = 1.0
    min_padded_size_ratio: tuple[float, float] = (1.0, 1.0)
    max_padded_size_ratio: tuple[float, float] = (2.0, 2.0)

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        size = tf.cast(tf.shape(sample.image)[:2], tf.float32)
        fitting = tf.floor(tf.stack([size[1] / self.aspect_ratio, size[0] * self.aspect_ratio]))
        target = tf.maximum(size, fitting)
        largest = tf.reduce_min(tf.maximum(size * tf.constant(self.max_padded_size_ratio) / target, 1.0))
        smallest = tf.reduce_max(tf.maximum(size * tf.constant(self.min_padded_size_ratio) / target, 1.0))
        scale = scaled(uniforms(seed, 1)[0], tf.minimum(smallest, largest), largest)
        canvas = tf.cast(tf.round(target * scale), tf.int32)
        return pad(sample, canvas, tf.zeros([2], tf.int32), (0.0, 0.0, 0.0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomSquareCropByScale:
    """Crop a square around a random centre, black outside the image, as in CenterNet's training.

    Zhou et al., "Objects as Points", 2019, https://arxiv.org/abs/1904.07850.

    Attributes:
        max_border: distance of the centre from the edges, pixels; halved until the image has room.
        scale_min: smallest side of the square, as a fraction of the image's longer side.
        scale_max: largest side.
        num_scales: number of evenly spaced sides to choose from.
    """

    max_border: int = 128
    scale_min: float = 0.6
    scale_max: float = 1.3
    num_scales: int = 8

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws, size = uniforms(seed, 3), tf.shape(sample.image)[:2]
        scales = tf.linspace(self.scale_min, self.scale_max, self.num_scales)
        scale = tf.gather(scales, random_int(draws[0], 0, self.num_scales - 1))
        # The largest max_border / 2^n that leaves room for the centre.
        halved = tf.constant([[self.max_border >> n] for n in range(self.max_border.bit_length() + 1)])
        border = tf.reduce_max(tf.where(2 * halved < size, halved, 0), axis=0)
        return square_crop(sample, scale, random_int(draws[1:], border, size - border - 1))


def square_crop(sample: Sample, scale: tf.Tensor, centre: tf.Tensor) -> Sample:
    """Crop a square around a centre, int32 [2]; its side is `scale`, float32 [], times the longer side."""
    size = tf.shape(sample.image)[:2]
    side = tf.cast(tf.cast(tf.reduce_max(size), tf.float32) * scale, tf.int32)
    begin = centre - side // 2
    first = tf.maximum(begin, 0)
    # A square that exceeds the image loses the last row and column, as in published detectors' training.
    last = tf.maximum(tf.minimum(begin + side, size - 1), first + 1)
    return _square(sample, crops.Window(first, last - first), first - begin, side)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomScaleCropAndPadToSquare:
    """Scale the image relative to a square, then crop or pad it to the square: scale jittering.

    Tan et al., "EfficientDet: Scalable and Efficient Object Detection", 2020,
    https://arxiv.org/abs/1911.09070.

    Attributes:
        output_size: side of the square, pixels.
        scale_min: smallest length of the image's longer side, as a fraction of the square's.
        scale_max: largest length.
    """

    output_size: int = 512
    scale_min: float = 0.1
    scale_max: float = 2.0

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws = uniforms(seed, 3)
        size = tf.cast(tf.shape(sample.image)[:2], tf.float32)
        side = scaled(draws[0], self.scale_min, self.scale_max) * self.output_size
        resized = _resize(sample, tf.cast(size * (side / tf.reduce_max(size)), tf.int32))
        size = tf.shape(resized.image)[:2]
        begin = random_int(draws[1:], 0, tf.maximum(size - self.output_size, 0))
        window = crops.Window(begin, tf.minimum(size, self.output_size))
        return _square(resized, window, tf.zeros([2], tf.int32), tf.constant(self.output_size))


def _resize(sample: Sample, size: tf.Tensor) -> Sample:
    """Resize image and masks; a mask's pixel is set if at least half of its area was."""
    size, masks = tf.maximum(size, 1), sample.truth.masks
    if masks.shape[1:] != [0, 0]:
        # One extra channel, because an image without channels cannot be resized.
        as_channels = tf.pad(tf.transpose(tf.cast(masks, tf.float32), [1, 2, 0]), [[0, 0], [0, 0], [0, 1]])
        fractions = resize_pixels(as_channels, size)[..., :-1]
        masks = tf.cast(tf.transpose(fractions, [2, 0, 1]) >= 0.5, masks.dtype)
    truth = sample.truth._replace(masks=masks)
    return sample._replace(image=resize_pixels(sample.image, size), truth=truth)


def _square(sample: Sample, window: crops.Window, offset: tf.Tensor, side: tf.Tensor) -> Sample:
    """Place a window of the image on a black square, at int32 [2] `offset`; clip boxes to the square."""
    square = tf.concat([window.begin - offset, window.begin - offset + side], 0)
    frame = tf.cast(square, tf.float32) / tf.cast(tf.tile(tf.shape(sample.image)[:2], [2]), tf.float32)
    room = tf.stack([offset, side - offset - window.size], axis=1)
    image, masks = crops.crop_and_pad(sample.image, sample.truth.masks, window, room)
    truth = crops.crop_truth(sample.truth._replace(masks=masks), frame, overlap_thresh=0.0, clip_boxes=True)
    return sample._replace(image=image, truth=truth)
