"""Flips, quarter turns and repeated images; rotations, shears and shifts, with the objects.

A warp is a float32 [2, 3] matrix. It maps a pixel (x, y) of the result to its position in the original image.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import tensorflow as tf

from detection_core.augment.augmentation import apply_with_probability, uniforms
from detection_core.ops import objects
from detection_core.structures import Sample

VERTICAL, HORIZONTAL = 0, 1
"""Image axes: rows from top to bottom, and columns from left to right."""


def flip(sample: Sample, axis: int, permutation: Sequence[int] = ()) -> Sample:
    """Mirror a sample: `HORIZONTAL` left and right, `VERTICAL` top and bottom.

    See `reorder_keypoints` for the permutation. Raises ValueError for keypoints without one.
    """
    truth = sample.truth
    if truth.keypoints.shape[1] != 0 and not permutation:
        raise ValueError("expected a keypoint_flip_permutation, as there are keypoints, found none")
    sides = tf.unstack(truth.boxes, axis=-1)
    sides[axis], sides[axis + 2] = 1.0 - sides[axis + 2], 1.0 - sides[axis]
    truth = truth._replace(
        boxes=tf.stack(sides, axis=-1),
        masks=tf.reverse(truth.masks, [axis + 1]),
        keypoints=objects.mirror_keypoints(truth.keypoints, axis),
    )
    image = tf.reverse(sample.image, [axis])
    return sample._replace(image=image, truth=objects.reorder_keypoints(truth, permutation))


def rotate90(sample: Sample, permutation: Sequence[int] = ()) -> Sample:
    """Rotate by 90 degrees counter-clockwise; see `reorder_keypoints` for the permutation."""
    truth = sample.truth
    ymin, xmin, ymax, xmax = tf.unstack(truth.boxes, axis=-1)
    truth = truth._replace(
        boxes=tf.stack([1.0 - xmax, ymin, 1.0 - xmin, ymax], axis=-1),
        masks=tf.reverse(tf.transpose(truth.masks, [0, 2, 1]), [1]),
        keypoints=objects.turn_keypoints(truth.keypoints),
    )
    image = tf.reverse(tf.transpose(sample.image, [1, 0, 2]), [0])
    return sample._replace(image=image, truth=objects.reorder_keypoints(truth, permutation))


def repeat_image(sample: Sample, axis: int) -> Sample:
    """Repeat the image and its objects along an axis, 0: below, 1: beside; boxes shrink to half on it."""
    shrink = tf.constant([0.5, 1.0, 0.5, 1.0] if axis == 0 else [1.0, 0.5, 1.0, 0.5])
    shift = tf.constant([0.5, 0.0, 0.5, 0.0] if axis == 0 else [0.0, 0.5, 0.0, 0.5])
    truth, count = sample.truth, tf.shape(sample.truth.boxes)[0]
    masks, none = truth.masks, tf.zeros_like(truth.masks)
    first, second = tf.concat([masks, none], axis + 1), tf.concat([none, masks], axis + 1)
    twice = objects.keep_objects(truth, tf.tile(tf.range(count), [2]))
    boxes, keypoints = truth.boxes * shrink, truth.keypoints * shrink[:2]
    truth = twice._replace(
        boxes=tf.concat([boxes, boxes + shift], 0),
        masks=tf.concat([first, second], 0),
        keypoints=tf.concat([keypoints, keypoints + shift[:2]], 0),
    )
    return sample._replace(image=tf.concat([sample.image, sample.image], axis), truth=truth)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomSelfConcatImage:
    """Repeat the image below (vertical) or beside itself, for more and smaller objects."""

    concat_vertical_probability: float = 0.1
    concat_horizontal_probability: float = 0.1

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws = uniforms(seed, 2)
        probabilities = {
            VERTICAL: self.concat_vertical_probability,
            HORIZONTAL: self.concat_horizontal_probability,
        }
        for axis, probability in probabilities.items():
            repeat = functools.partial(repeat_image, axis=axis)
            sample = apply_with_probability(draws[axis], probability, repeat, sample)
        return sample


REPLACEMENT = 128
_LEAST_SIDE = 0.05


def rotation(size: tf.Tensor, degrees: tf.Tensor) -> tf.Tensor:
    """Rotate counter-clockwise around the centre of an image of int32 [2] `size`."""
    angle = degrees * (math.pi / 180.0)
    cosine, sine = tf.cos(angle), tf.sin(angle)
    last_row, last_column = tf.unstack(tf.cast(size, tf.float32) - 1.0)
    shift_x = (last_column - (cosine * last_column - sine * last_row)) / 2.0
    shift_y = (last_row - (sine * last_column + cosine * last_row)) / 2.0
    return tf.stack([tf.stack([cosine, -sine, shift_x]), tf.stack([sine, cosine, shift_y])])


def shear(level: tf.Tensor, *, horizontal: bool) -> tf.Tensor:
    """Shift rows to the left, or columns up, by `level` pixels per row or column."""
    across, down = (level, 0.0) if horizontal else (0.0, level)
    return tf.stack([tf.stack([1.0, across, 0.0]), tf.stack([down, 1.0, 0.0])])


def shift(pixels: tf.Tensor, *, horizontal: bool) -> tf.Tensor:
    """Shift the image to the left or up by some pixels."""
    across, down = (pixels, 0.0) if horizontal else (0.0, pixels)
    return tf.stack([tf.stack([1.0, 0.0, across]), tf.stack([0.0, 1.0, down])])


def mirror(size: tf.Tensor) -> tf.Tensor:
    """Mirror left and right in an image of int32 [2] `size`."""
    return tf.stack([tf.stack([-1.0, 0.0, tf.cast(size[1], tf.float32) - 1.0]), [0.0, 1.0, 0.0]])


def warp_pixels(pixels: tf.Tensor, warp: tf.Tensor, fill: int, interpolation: str = "NEAREST") -> tf.Tensor:
    """Warp integers [h, w, c]; outside becomes `fill`."""
    flat = tf.concat([tf.reshape(warp, [6]), tf.zeros([2])], 0)
    warped = tf.raw_ops.ImageProjectiveTransformV3(
        images=pixels[tf.newaxis],
        transforms=flat[tf.newaxis],
        output_shape=tf.shape(pixels)[:2],
        interpolation=interpolation,
        fill_mode="CONSTANT",
        fill_value=float(fill),
    )[0]
    return tf.ensure_shape(warped, pixels.shape)


def warp_masks(masks: tf.Tensor, warp: tf.Tensor) -> tf.Tensor:
    """Warp uint8 [G, h, w]; zero-sized masks are unchanged."""
    if masks.shape[1:] == [0, 0]:
        return masks

    def warped() -> tf.Tensor:
        return tf.transpose(warp_pixels(tf.transpose(masks, [1, 2, 0]), warp, 0), [2, 0, 1])

    return tf.ensure_shape(tf.cond(tf.shape(masks)[0] > 0, warped, lambda: masks), masks.shape)


def warp_keypoints(keypoints: tf.Tensor, warp: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Move normalised keypoints with the pixels of an image of int32 [2] `size`; outside they become NaN."""
    scale = tf.cast(size, tf.float32)
    points = tf.reverse(keypoints * scale - 0.5, [-1])
    back = tf.linalg.inv(warp[:, :2])
    moved = tf.linalg.matvec(back, points - warp[:, 2])
    moved = (tf.reverse(moved, [-1]) + 0.5) / scale
    return objects.hide_outside(moved, tf.constant([0.0, 0.0, 1.0, 1.0]))


def warp_boxes(boxes: tf.Tensor, warp: tf.Tensor, size: tf.Tensor, *, middle: bool = False) -> tf.Tensor:
    """Return the boxes around the warped corners, at whole pixels, as in the training of published policies.

    Args:
        boxes: float32 [G, 4], normalised.
        warp: of the pixels.
        size: int32 [2], rows and columns of the image.
        middle: whether whole pixels are counted from the image's centre, which the warp must keep fixed,
            instead of from the first pixel.

    Returns:
        float32 [G, 4], in the image; a box that left it keeps a narrow strip at the border.
    """
    scale, origin = tf.cast(size, tf.float32), 0.5 if middle else 0.0
    sides = _truncated((boxes - origin) * tf.tile(scale, [2]))
    ymin, xmin, ymax, xmax = tf.unstack(sides, axis=-1)
    corners = tf.stack([tf.stack([x, y], -1) for y in (ymin, ymax) for x in (xmin, xmax)], axis=1)
    offset = tf.zeros([2]) if middle else warp[:, 2]
    moved = _truncated(tf.linalg.matvec(tf.linalg.inv(warp[:, :2]), corners - offset))
    moved = tf.reverse(moved, [-1]) / scale + origin
    found = tf.concat([tf.reduce_min(moved, axis=1), tf.reduce_max(moved, axis=1)], axis=-1)
    return with_area(tf.clip_by_value(found, 0.0, 1.0))


def _truncated(values: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.cast(values, tf.int32), tf.float32)


def with_area(boxes: tf.Tensor) -> tf.Tensor:
    """Widen sides of length zero to a strip inside the image."""
    low, high = boxes[:, :2], boxes[:, 2:]
    none = low == high
    low, high = (
        tf.where(none, tf.minimum(low, 1.0 - _LEAST_SIDE), low),
        tf.where(none, tf.maximum(high, _LEAST_SIDE), high),
    )
    return tf.concat([low, high], axis=-1)


def warp_sample(sample: Sample, warp: tf.Tensor, boxes: tf.Tensor) -> Sample:
    """Warp image, masks and keypoints, and set the given boxes."""
    truth, size = sample.truth, tf.shape(sample.image)[:2]
    truth = truth._replace(boxes=boxes, masks=warp_masks(truth.masks, warp))
    truth = objects.with_keypoints(truth, warp_keypoints(truth.keypoints, warp, size))
    return sample._replace(image=warp_pixels(sample.image, warp, REPLACEMENT), truth=truth)
