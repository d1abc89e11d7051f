"""Changes to parts of the image: in and around boxes, grid masks, black patches, noise; JPEG artefacts.

The grid mask follows google/automl's EfficientDet: Chen et al., "GridMask Data Augmentation", 2020,
https://arxiv.org/abs/2001.04086.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from detection_core.augment.augmentation import in_floats, random_int, scaled, skip_with_probability, uniforms
from detection_core.augment.crops import Window
from detection_core.augment.geometry import REPLACEMENT, rotation, warp_pixels
from detection_core.ops.resampling import change_colours, colour_shape
from detection_core.structures import Sample


def region_of(box: tf.Tensor, size: tf.Tensor) -> Window:
    """Return the pixels that a normalised box [4] touches in an image of int32 [2] `size`; at least one."""
    sides = tf.cast(box * tf.cast(tf.tile(size, [2]), tf.float32), tf.int32)
    begin = tf.clip_by_value(sides[:2], 0, size - 1)
    return Window(begin, tf.clip_by_value(sides[2:], begin, size - 1) + 1 - begin)


def change_region(pixels: tf.Tensor, region: Window, change: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Replace a region of [H, W, c] by the result of `change`."""
    (top, left), (bottom, right) = tf.unstack(region.begin), tf.unstack(region.begin + region.size)
    rows = pixels[top:bottom]
    changed = change(tf.ensure_shape(rows[:, left:right], [None, None, pixels.shape[-1]]))
    rows = tf.concat([rows[:, :left], changed, rows[:, right:]], axis=1)
    return tf.ensure_shape(tf.concat([pixels[:top], rows, pixels[bottom:]], axis=0), pixels.shape)


def fill_square(image: tf.Tensor, centre: tf.Tensor, reach: tf.Tensor) -> tf.Tensor:
    """Fill a part of uint8 [h, w, 3] around `centre` with grey.

    `reach`, int32 [2], is the extent up and to the left; it is one pixel less down and to the right.
    """
    inside = _in_rectangle(image, centre - reach, centre + reach)
    return tf.where(inside, tf.constant(REPLACEMENT, tf.uint8), image)


def _in_rectangle(image: tf.Tensor, first: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
    """Return bool [H, W, 1], true from `first` to before `last`, int32 [2], rows and columns."""
    size = tf.shape(image)[:2]
    rows, columns = ((tf.range(size[a]) >= first[a]) & (tf.range(size[a]) < last[a]) for a in (0, 1))
    return (rows[:, tf.newaxis] & columns)[..., tf.newaxis]


def cut_out(image: tf.Tensor, reach: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Fill a random square of 2 * reach pixels in uint8 [h, w, 3] (DeVries and Taylor 2017, Cutout)."""
    centre = random_int(uniforms(seed, 2), 0, tf.shape(image)[:2] - 1)
    return fill_square(image, centre, tf.repeat(tf.cast(reach, tf.int32), 2))


def cut_out_of_box(image: tf.Tensor, box: tf.Tensor, fraction: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """Fill a rectangle, centred in a normalised box, float32 [4], in uint8 [h, w, 3].

    Its sides are a fraction of the box's; `draws`, float32 [2] of [0, 1), are row and column of the centre.
    """
    region = region_of(box, tf.shape(image)[:2])
    reach = tf.cast(fraction * (tf.cast(region.size, tf.float32) / 2.0), tf.int32)
    return fill_square(image, random_int(draws, region.begin, region.begin + region.size - 1), reach)


def cut_out_of_any_box(sample: Sample, fraction: tf.Tensor, seed: tf.Tensor) -> Sample:
    """Fill a rectangle with its centre in a random box, if there is any; see `cut_out_of_box`."""
    draws, count = uniforms(seed, 3), tf.shape(sample.truth.boxes)[0]

    def change() -> tf.Tensor:
        box = tf.gather(sample.truth.boxes, random_int(draws[0], 0, count - 1))
        return cut_out_of_box(sample.image, box, fraction, draws[1:])

    return sample._replace(image=tf.cond(count > 0, change, lambda: sample.image))


def change_boxes(
    sample: Sample,
    change: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    change_masks: Callable[[tf.Tensor], tf.Tensor],
    probability: tf.Tensor,
    seed: tf.Tensor,
) -> Sample:
    """Change the pixels of each box with a probability, one by one in random order; the boxes stay.

    `change` takes uint8 [h, w, 3] pixels of the sample's image and a seed, `change_masks` uint8 [h, w, G].
    `seed` is int64 [2].
    """
    truth, size = sample.truth, tf.shape(sample.image)[:2]
    count = tf.shape(truth.boxes)[0]
    has_masks = truth.masks.shape[1:] != [0, 0]
    order = tf.random.experimental.stateless_shuffle(tf.range(count), seed)
    taken = tf.random.stateless_uniform([count], tf.random.fold_in(seed, 1)) < probability

    def one(pixels: tuple[tf.Tensor, tf.Tensor], row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        region, image_seed = region_of(truth.boxes[row], size), tf.random.fold_in(seed, row + 2)

        def changed() -> tuple[tf.Tensor, tf.Tensor]:
            image = change_region(pixels[0], region, lambda part: change(part, image_seed))
            return image, change_region(pixels[1], region, change_masks) if has_masks else pixels[1]

        return tf.cond(taken[row], changed, lambda: pixels)

    planes = tf.transpose(truth.masks, [1, 2, 0])
    image, planes = tf.foldl(one, order, initializer=(sample.image, planes))
    masks = tf.ensure_shape(tf.transpose(planes, [2, 0, 1]), truth.masks.shape)
    return sample._replace(image=image, truth=truth._replace(masks=masks))


@dataclasses.dataclass(frozen=True, kw_only=True)
class GridMask:
    """Blacken the squares between the bars of a rotated grid, on some images.

    Attributes:
        threshold: the mask is applied if a standard normal draw is below it.
        ratio: width of a bar as a fraction of the grid's period; 1: random.
        rotate: degrees, multiplied by a normal draw with mean -1 and deviation 1.
        gridmask_size_ratio: excess of the grid's side over the image's longer side, as a fraction of it.
    """

    threshold: float = 0.5
    ratio: float = 0.6
    rotate: float = 10.0
    gridmask_size_ratio: float = 0.5

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        normal = tf.random.stateless_normal([2], seed)
        draws = uniforms(tf.random.fold_in(seed, 1), 4)
        size = tf.shape(sample.image)[:2]

        def masked() -> tf.Tensor:
            mask = turned(self.mask(size, draws), self.rotate * (normal[1] - 1.0))
            return sample.image * tf.cast(centre_of(mask, size), sample.image.dtype)[..., tf.newaxis]

        image = tf.cond(normal[0] < self.threshold, masked, lambda: sample.image)
        return sample._replace(image=tf.ensure_shape(image, sample.image.shape))

    def mask(self, size: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
        """Return the grid for an image of int32 [2] `size`: int32 [s, s], 1 in the bars.

        The four draws of [0, 1) give the period, the bar's width (if random), and the offsets of horizontal
        and vertical bars.
        """
        height, width = tf.unstack(tf.cast(size, tf.float32))
        side = tf.cast((1.0 + self.gridmask_size_ratio) * tf.maximum(height, width), tf.int32)
        low, high = (tf.cast(f(height * 0.5, width * 0.3), tf.int32) for f in (tf.minimum, tf.maximum))
        period = tf.maximum(random_int(draws[0], low, high), 1)
        bar = self._bar(period, draws[1])
        offsets = random_int(draws[2:], 0, period)
        # Bars start only in whole periods of the grid; the last bar may be cut.
        places = tf.range(side)[tf.newaxis] - offsets[:, tf.newaxis]
        inside = (places >= 0) & (places // period < side // period) & (places % period < bar)
        return tf.cast(inside[0][:, tf.newaxis] | inside[1][tf.newaxis], tf.int32)

    def _bar(self, period: tf.Tensor, draw: tf.Tensor) -> tf.Tensor:
        if self.ratio == 1:
            return random_int(draw, 1, period)
        wanted = tf.cast(tf.cast(period, tf.float32) * self.ratio + 0.5, tf.int32)
        return tf.minimum(tf.maximum(wanted, 1), period - 1)


def turned(mask: tf.Tensor, degrees: tf.Tensor) -> tf.Tensor:
    """Rotate int32 [s, s] counter-clockwise around its centre; outside is 0."""
    return warp_pixels(mask[..., tf.newaxis], rotation(tf.shape(mask), degrees), 0, "BILINEAR")[..., 0]


def centre_of(mask: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Crop the centre of int32 [2] `size` from [s, s]."""
    return tf.slice(mask, (tf.shape(mask) - size) // 2, size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomBlackPatches:
    """Blacken some squares.

    Attributes:
        max_black_patches: most squares.
        probability: of each square.
        size_to_image_ratio: side as a fraction of the image's shorter side.
    """

    max_black_patches: int = 10
    probability: float = 0.5
    size_to_image_ratio: float = 0.1

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws = tf.random.stateless_uniform([self.max_black_patches, 3], seed)
        corners = draws[:, 1:] * (1.0 - self.size_to_image_ratio)
        return blacken(sample, corners, draws[:, 0] < self.probability, self.size_to_image_ratio)


def blacken(sample: Sample, corners: tf.Tensor, taken: tf.Tensor, size_to_image_ratio: float) -> Sample:
    """Blacken the `taken`, bool [N], of the squares at `corners`.

    `corners` are float32 [N, 2], first row and column, normalised. The ratio gives the side as a fraction of
    the image's shorter side.
    """
    size = tf.shape(sample.image)[:2]
    side = tf.cast(tf.cast(tf.reduce_min(size), tf.float32) * size_to_image_ratio, tf.int32)
    first = tf.cast(corners * tf.cast(size, tf.float32), tf.int32)
    in_rows, in_columns = (
        (tf.range(size[a]) >= first[:, a, tf.newaxis]) & (tf.range(size[a]) < first[:, a, tf.newaxis] + side)
        for a in (0, 1)
    )
    rows = tf.cast(in_rows & taken[:, tf.newaxis], tf.float32)
    black = tf.matmul(rows, tf.cast(in_columns, tf.float32), transpose_a=True) > 0
    return sample._replace(image=tf.where(black[..., tf.newaxis], 0.0, in_floats(sample).image))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomPatchGaussian:
    """Add Gaussian noise in one square, with a probability.

    Lopes et al., "Improving Robustness Without Sacrificing Accuracy with Patch Gaussian Augmentation", 2019,
    https://arxiv.org/abs/1906.02611.

    Attributes:
        min_patch_size: smallest side, pixels.
        max_patch_size: largest side, pixels.
        min_gaussian_stddev: smallest standard deviation, as a fraction of the full range.
        max_gaussian_stddev: largest standard deviation.
        random_coef: probability of no change.
    """

    min_patch_size: int = 1
    max_patch_size: int = 250
    min_gaussian_stddev: float = 0.0
    max_gaussian_stddev: float = 1.0
    random_coef: float = 0.0

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws, size = uniforms(seed, 5), tf.shape(sample.image)[:2]
        stddev = scaled(draws[4], self.min_gaussian_stddev, self.max_gaussian_stddev)

        def change(sample: Sample) -> Sample:
            noise_seed = tf.random.fold_in(seed, 1)
            noise = stddev * tf.random.stateless_normal(colour_shape(sample.image), noise_seed)
            centre = random_int(draws[2:4], 0, size - 1)
            side = random_int(draws[1], self.min_patch_size, self.max_patch_size)
            return add_in_patch(sample, noise, centre, side)

        return skip_with_probability(draws[0], self.random_coef, change, in_floats(sample))


def add_in_patch(sample: Sample, noise: tf.Tensor, centre: tf.Tensor, side: tf.Tensor) -> Sample:
    """Add noise, float32 [H, W, 3] as a fraction of the full range, in one square.

    `centre` is int32 [2], row and column; the square may exceed the image.
    """
    begin = centre - side // 2
    inside = _in_rectangle(sample.image, begin, begin + side)

    def noisy(image: tf.Tensor) -> tf.Tensor:
        return tf.where(inside, tf.clip_by_value(image / 255.0 + noise, 0.0, 1.0) * 255.0, image)

    return sample._replace(image=change_colours(sample.image, noisy))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomJpegQuality:
    """Compress the image as JPEG and decode it; `random_coef` is the probability of no change."""

    random_coef: float = 0.0
    min_jpeg_quality: int = 0
    max_jpeg_quality: int = 100

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws = uniforms(seed, 2)
        quality = random_int(draws[1], self.min_jpeg_quality, self.max_jpeg_quality)

        def compressed(image: tf.Tensor) -> tf.Tensor:
            pixels = tf.saturate_cast(tf.round(image), tf.uint8)
            decoded = tf.io.decode_jpeg(tf.raw_ops.EncodeJpegVariableQuality(images=pixels, quality=quality))
            return tf.ensure_shape(tf.cast(decoded, tf.float32), image.shape)

        def change(sample: Sample) -> Sample:
            return sample._replace(image=change_colours(sample.image, compressed))

        return skip_with_probability(draws[0], self.random_coef, change, in_floats(sample))
