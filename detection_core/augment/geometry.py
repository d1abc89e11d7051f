"""Flips, quarter turns, and the image beside itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from detection_core.augment.steps import maybe, uniforms
from detection_core.ops.keypoints import mirror_keypoints, reorder_keypoints, turn_keypoints
from detection_core.ops.objects import keep_objects
from detection_core.structures import Sample


def flip_horizontally(sample: Sample, permutation: Sequence[int] = ()) -> Sample:
    """Mirror left and right; see `reorder_keypoints` for the permutation."""
    ymin, xmin, ymax, xmax = tf.unstack(sample.truth.boxes, axis=-1)
    boxes = tf.stack([ymin, 1.0 - xmax, ymax, 1.0 - xmin], axis=-1)
    return _flipped(sample, boxes, 1, permutation)


def flip_vertically(sample: Sample, permutation: Sequence[int] = ()) -> Sample:
    """Mirror top and bottom; see `reorder_keypoints` for the permutation."""
    ymin, xmin, ymax, xmax = tf.unstack(sample.truth.boxes, axis=-1)
    boxes = tf.stack([1.0 - ymax, xmin, 1.0 - ymin, xmax], axis=-1)
    return _flipped(sample, boxes, 0, permutation)


def _flipped(sample: Sample, boxes: tf.Tensor, axis: int, permutation: Sequence[int]) -> Sample:
    """Mirror everything but the boxes."""
    truth = sample.truth
    if truth.keypoints.shape[1] != 0 and not permutation:
        raise ValueError("expected a keypoint_flip_permutation, as there are keypoints, found none")
    truth = truth._replace(
        boxes=boxes,
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
class RandomHorizontalFlip:
    """Mirror left and right, or not.

    Attributes:
        probability: of the flip.
        keypoint_flip_permutation: the keypoint that each becomes, see `reorder_keypoints`.
    """

    probability: float = 0.5
    keypoint_flip_permutation: tuple[int, ...] = ()

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        taken = uniforms(seed, 1)[0] < self.probability
        return maybe(taken, lambda s: flip_horizontally(s, self.keypoint_flip_permutation), sample)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomVerticalFlip:
    """Mirror top and bottom, or not.

    Attributes:
        probability: of the flip.
        keypoint_flip_permutation: the keypoint that each becomes, see `reorder_keypoints`.
    """

    probability: float = 0.5
    keypoint_flip_permutation: tuple[int, ...] = ()

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Change the sample."""
        taken = uniforms(seed, 1)[0] < self.probability
        return maybe(taken, lambda s: flip_vertically(s, self.keypoint_flip_permutation), sample)


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
        taken = uniforms(seed, 1)[0] < self.probability
        return maybe(taken, lambda s: rotate90(s, self.keypoint_rot_permutation), sample)


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
        sample = maybe(draws[0] < self.concat_vertical_probability, lambda s: repeat_image(s, 0), sample)
        return maybe(draws[1] < self.concat_horizontal_probability, lambda s: repeat_image(s, 1), sample)
