"""Changes of a part of the image, in and around boxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from detection_core.augment.augmentation import random_int, uniforms
from detection_core.augment.warps import REPLACEMENT
from detection_core.structures import Sample


class Region(NamedTuple):
    """Pixels of an image that a box touches.

    Attributes:
        begin: int32 [2], first row and column.
        end: int32 [2], behind the last row and column.
    """

    begin: tf.Tensor
    end: tf.Tensor


def region_of(box: tf.Tensor, size: tf.Tensor) -> Region:
    """Return the pixels of a normalised box [4] in an image of int32 [2] `size`, at least one."""
    sides = tf.cast(box * tf.cast(tf.tile(size, [2]), tf.float32), tf.int32)
    begin = tf.clip_by_value(sides[:2], 0, size - 1)
    return Region(begin, tf.clip_by_value(sides[2:], begin, size - 1) + 1)


def change_region(pixels: tf.Tensor, region: Region, change: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Replace a region of [H, W, c] by the result of `change`."""
    (top, left), (bottom, right) = tf.unstack(region.begin), tf.unstack(region.end)
    rows = pixels[top:bottom]
    changed = change(tf.ensure_shape(rows[:, left:right], [None, None, pixels.shape[-1]]))
    rows = tf.concat([rows[:, :left], changed, rows[:, right:]], axis=1)
    return tf.ensure_shape(tf.concat([pixels[:top], rows, pixels[bottom:]], axis=0), pixels.shape)


def fill_square(
    image: tf.Tensor, centre: tf.Tensor, reach: tf.Tensor, value: tf.Tensor | int = REPLACEMENT
) -> tf.Tensor:
    """Fill a part of an image with one value.

    Args:
        image: uint8 [h, w, 3].
        centre: int32 [2], row and column.
        reach: int32 [2], how far the part goes up and to the left; one pixel less down and to the right.
        value: uint8 [] or [3].
    """
    size, first, last = tf.shape(image)[:2], centre - reach, centre + reach
    rows, columns = ((tf.range(size[a]) >= first[a]) & (tf.range(size[a]) < last[a]) for a in (0, 1))
    inside = (rows[:, tf.newaxis] & columns)[..., tf.newaxis]
    return tf.where(inside, tf.cast(value, tf.uint8), image)


def cut_out(image: tf.Tensor, reach: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Fill a square of 2 * reach pixels anywhere in uint8 [h, w, 3] (DeVries and Taylor 2017, Cutout)."""
    centre = random_int(uniforms(seed, 2), 0, tf.shape(image)[:2] - 1)
    return fill_square(image, centre, tf.repeat(tf.cast(reach, tf.int32), 2))


def cut_out_of_box(image: tf.Tensor, box: tf.Tensor, fraction: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """Fill a rectangle with its centre in a box.

    Args:
        image: uint8 [h, w, 3].
        box: float32 [4], normalised.
        fraction: sides of the rectangle as a fraction of the box's.
        draws: float32 [2] of [0, 1), row and column of the centre in the box.
    """
    region = region_of(box, tf.shape(image)[:2])
    reach = tf.cast(fraction * (tf.cast(region.end - region.begin, tf.float32) / 2.0), tf.int32)
    return fill_square(image, random_int(draws, region.begin, region.end - 1), reach)


def cut_out_of_any_box(sample: Sample, fraction: tf.Tensor, seed: tf.Tensor) -> Sample:
    """Fill a rectangle with its centre in one of the boxes, if there is any; see `cut_out_of_box`."""
    draws, count = uniforms(seed, 3), tf.shape(sample.truth.boxes)[0]

    def change() -> tf.Tensor:
        box = tf.gather(sample.truth.boxes, random_int(draws[0], 0, count - 1))
        return cut_out_of_box(sample.image, box, fraction, draws[1:])

    return sample._replace(image=tf.cond(count > 0, change, lambda: sample.image))


class BoxChange(NamedTuple):
    """What happens to the pixels in a box.

    Attributes:
        image: of uint8 [h, w, 3] and int64 [2] seed.
        masks: of uint8 [h, w, G].
    """

    image: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    masks: Callable[[tf.Tensor], tf.Tensor]


def change_boxes(sample: Sample, change: BoxChange, probability: tf.Tensor, seed: tf.Tensor) -> Sample:
    """Change the pixels in each box by chance, one box after the other in random order; the boxes stay.

    Args:
        sample: image uint8.
        change: of the pixels in a box.
        probability: of each box.
        seed: int64 [2].
    """
    truth, size = sample.truth, tf.shape(sample.image)[:2]
    count = tf.shape(truth.boxes)[0]
    has_masks = truth.masks.shape[1:] != [0, 0]
    order = tf.random.experimental.stateless_shuffle(tf.range(count), seed)
    taken = tf.random.stateless_uniform([count], tf.random.fold_in(seed, 1)) < probability

    def one(pixels: tuple[tf.Tensor, tf.Tensor], row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        region, image_seed = region_of(truth.boxes[row], size), tf.random.fold_in(seed, row + 2)

        def changed() -> tuple[tf.Tensor, tf.Tensor]:
            image = change_region(pixels[0], region, lambda part: change.image(part, image_seed))
            return image, change_region(pixels[1], region, change.masks) if has_masks else pixels[1]

        return tf.cond(taken[row], changed, lambda: pixels)

    planes = tf.transpose(truth.masks, [1, 2, 0])
    image, planes = tf.foldl(one, order, initializer=(sample.image, planes))
    masks = tf.ensure_shape(tf.transpose(planes, [2, 0, 1]), truth.masks.shape)
    return sample._replace(image=image, truth=truth._replace(masks=masks))
