"""Flips, quarter turns, and the image beside itself."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import ClassVar

import tensorflow as tf

from detection_core.augment.augmentation import apply_with_probability, uniforms
from detection_core.ops.keypoints import mirror_keypoints, reorder_keypoints, turn_keypoints
from detection_core.ops.objects import keep_objects
from detection_core.structures import Sample

VERTICAL, HORIZONTAL = 0, 1
"""Axes of an image: along its rows from top to bottom, and along its columns from left to right."""


def flip(sample: Sample, axis: int, permutation: Sequence[int] = ()) -> Sample:
    """Mirror a sample.

    Args:
        sample: image and objects.
        axis: `HORIZONTAL` mirrors left and right, `VERTICAL` top and bottom.
        permutation: see `reorder_keypoints`.
    """
    truth = sample.truth
    if truth.keypoints.shape[1] != 0 and not permutation:
        raise ValueError("expected a keypoint_flip_permutation, as there are keypoints, found none")
    sides = tf.unstack(truth.boxes, axis=-1)
    sides[axis], sides[axis + 2] = 1.0 - sides[axis + 2], 1.0 - sides[axis]
    truth = truth._replace(
        boxes=tf.stack(sides, axis=-1),
        masks=tf.reverse(truth.masks, [axis + 1]),
        keypoints=mirror_keypoints(truth.keypoints, axis),
    )
    image = tf.reverse(sample.image, [axis])
    return sample._replace(image=image, truth=reorder_keypoints(truth, permutation))


def rotate90(sample: Sample, permutation: Sequence[int] = ()) -> Sample:
    """Turn by 90 degrees counter-clockwise; see `reorder_keypoints` for the permutation."""
    truth = sample.truth
    ymin, xmin, ymax, xmax = tf.unstack(truth.boxes, axis=-1)
    truth = truth._replace(
        boxes=tf.stack([1.0 - xmax, ymin, 1.0 - xmin, ymax], axis=-1),
        masks=tf.reverse(tf.transpose(truth.masks, [0, 2, 1]), [1]),
        keypoints=turn_keypoints(truth.keypoints),
    )
    image = tf.reverse(tf.transpose(sample.image, [1, 0, 2]), [0])
    return sample._replace(image=image, truth=reorder_keypoints(truth, permutation))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RandomFlip:
    """Mirror along an axis, or not."""

    _AXIS: ClassVar[int]

    probability: float = 0.5
    keypoint_flip_permutation: tuple[int, ...] = ()

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        return apply_with_probability(
            uniforms(seed, 1)[0],
            self.probability,
            lambda s: flip(s, self._AXIS, self.keypoint_flip_permutation),
            sample,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomHorizontalFlip(_RandomFlip):
    """Mirror left and right, or not.

    Attributes:
        probability: of the flip.
        keypoint_flip_permutation: the keypoint that each becomes, see `reorder_keypoints`.
    """

    _AXIS = HORIZONTAL


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomVerticalFlip(_RandomFlip):
    """Mirror top and bottom, or not.

    Attributes:
        probability: of the flip.
        keypoint_flip_permutation: the keypoint that each becomes, see `reorder_keypoints`.
    """

    _AXIS = VERTICAL


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomRotation90:
    """Turn by 90 degrees counter-clockwise, or not.

    Attributes:
        probability: of the turn.
        keypoint_rot_permutation: the keypoint that each becomes, see `reorder_keypoints`.
    """

    probability: float = 0.5
    keypoint_rot_permutation: tuple[int, ...] = ()

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        draw = uniforms(seed, 1)[0]
        return apply_with_probability(
            draw, self.probability, lambda s: rotate90(s, self.keypoint_rot_permutation), sample
        )


def repeat_image(sample: Sample, axis: int) -> Sample:
    """Put the image and its objects twice along an axis, 0 below or 1 beside; all shrink to half of it."""
    shrink = tf.constant([0.5, 1.0, 0.5, 1.0] if axis == 0 else [1.0, 0.5, 1.0, 0.5])
    shift = tf.constant([0.5, 0.0, 0.5, 0.0] if axis == 0 else [0.0, 0.5, 0.0, 0.5])
    truth, count = sample.truth, tf.shape(sample.truth.boxes)[0]
    masks, none = truth.masks, tf.zeros_like(truth.masks)
    first, second = tf.concat([masks, none], axis + 1), tf.concat([none, masks], axis + 1)
    twice = keep_objects(truth, tf.tile(tf.range(count), [2]))
    boxes, keypoints = truth.boxes * shrink, truth.keypoints * shrink[:2]
    truth = twice._replace(
        boxes=tf.concat([boxes, boxes + shift], 0),
        masks=tf.concat([first, second], 0),
        keypoints=tf.concat([keypoints, keypoints + shift[:2]], 0),
    )
    return sample._replace(image=tf.concat([sample.image, sample.image], axis), truth=truth)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomSelfConcatImage:
    """Put the image beside itself, so that objects become more and smaller.

    Attributes:
        concat_vertical_probability: of a copy below.
        concat_horizontal_probability: of a copy to the right.
    """

    concat_vertical_probability: float = 0.1
    concat_horizontal_probability: float = 0.1

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        draws = uniforms(seed, 2)
        probabilities = {
            VERTICAL: self.concat_vertical_probability,
            HORIZONTAL: self.concat_horizontal_probability,
        }
        for axis, probability in probabilities.items():
            repeat = functools.partial(repeat_image, axis=axis)
            sample = apply_with_probability(draws[axis], probability, repeat, sample)
        return sample
