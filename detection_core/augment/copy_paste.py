"""Objects of one image pasted onto another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from detection_core.augment.augmentation import apply_with_probability, scaled, uniforms
from detection_core.augment.framing import joined_objects, place
from detection_core.augment.mixing import Mixing, unmixed
from detection_core.ops.objects import keep_objects
from detection_core.structures import GroundTruth, Sample


@dataclasses.dataclass(frozen=True, kw_only=True)
class CopyPaste(Mixing):
    """Paste some objects of another image, scaled and moved with it, onto this one.

    With masks the objects' pixels are pasted, and the masks and boxes of what they hide are cut. Without, the
    rectangles of their boxes are pasted. Crowds are never pasted.

    Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation", 2021,
    https://arxiv.org/abs/2012.07177; for rectangles compare Dwibedi et al., "Cut, Paste and Learn", 2017,
    https://arxiv.org/abs/1708.01642.

    Attributes:
        probability: of pasting.
        object_probability: of each object of the other image to be pasted.
        scale_min: smallest factor of the other image, to what fits this one.
        scale_max: largest factor.
        min_visible: an object stays if at least this fraction of it is neither hidden nor outside.
    """

    probability: float = 1.0
    object_probability: float = 0.5
    scale_min: float = 0.5
    scale_max: float = 1.5
    min_visible: float = 0.3

    def __call__(self, sample: Sample, partner: Callable[[int], Sample], seed: tf.Tensor) -> Sample:
        """Change the sample."""
        draws = uniforms(seed, 4)

        def paste(below: Sample) -> Sample:
            placed = self._placed(partner(0), tf.shape(below.image)[:2], draws[1:])
            chosen = tf.random.stateless_uniform(tf.shape(placed.truth.classes), tf.random.fold_in(seed, 1))
            kept = (chosen < self.object_probability) & ~placed.truth.is_crowd
            above = placed._replace(truth=keep_objects(placed.truth, kept))
            return pasted(below, above, min_visible=self.min_visible)

        return apply_with_probability(draws[0], self.probability, paste, unmixed(sample))

    def _placed(self, sample: Sample, frame: tf.Tensor, draws: tf.Tensor) -> Sample:
        """Scale the other image and put it where all of it is in the frame, or all of the frame is in it."""
        size = tf.cast(tf.shape(sample.image)[:2], tf.float32)
        factor = scaled(draws[0], self.scale_min, self.scale_max)
        fitting = tf.reduce_min(tf.cast(frame, tf.float32) / size)
        whole = tf.maximum(tf.cast(tf.round(size * fitting * factor), tf.int32), 1)
        offset = tf.cast(tf.round(tf.cast(frame - whole, tf.float32) * draws[1:]), tf.int32)
        return place(sample, scaled=whole, offset=offset, frame=frame, min_visible=self.min_visible)


def pasted(below: Sample, above: Sample, *, min_visible: float) -> Sample:
    """Paste all objects of one sample onto another of the same size.

    Args:
        below: what they are pasted onto.
        above: whose objects are pasted; its image is seen nowhere else.
        min_visible: an object of `below` stays if at least this fraction of it is still seen.
    """
    rows, columns = tf.unstack(tf.shape(below.image)[:2])
    with_masks = below.truth.masks.shape[1:] != [0, 0]
    shapes = above.truth.masks if with_masks else rectangles(above.truth.boxes, rows, columns)
    cover = tf.reduce_any(shapes > 0, axis=0)
    image = tf.where(cover[..., tf.newaxis], above.image, below.image)
    uncovered = _cut_masks if with_masks else _uncovered_boxes
    truth = uncovered(below.truth, cover, min_visible)
    return below._replace(image=image, truth=joined_objects([truth, above.truth]))


def rectangles(boxes: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Return uint8 [G, rows, columns], 1 where the middle of a pixel is in a box [G, 4]."""
    y = (tf.range(tf.cast(rows, tf.float32)) + 0.5) / tf.cast(rows, tf.float32)
    x = (tf.range(tf.cast(columns, tf.float32)) + 0.5) / tf.cast(columns, tf.float32)
    ymin, xmin, ymax, xmax = tf.unstack(boxes[:, :, tf.newaxis], axis=1)
    in_rows, in_columns = (y >= ymin) & (y < ymax), (x >= xmin) & (x < xmax)
    return tf.cast(in_rows[:, :, tf.newaxis] & in_columns[:, tf.newaxis], tf.uint8)


def _uncovered_boxes(truth: GroundTruth, cover: tf.Tensor, min_visible: float) -> GroundTruth:
    """Leave out the objects whose boxes are mostly covered."""
    shape = tf.shape(cover)
    inside = tf.cast(rectangles(truth.boxes, shape[0], shape[1]), tf.float32)
    seen = tf.reduce_sum(inside * tf.cast(~cover, tf.float32), [1, 2])
    whole = tf.reduce_sum(inside, [1, 2])
    # A box that is thinner than a pixel covers none: nothing is known of it, so it stays.
    return keep_objects(truth, (whole == 0.0) | (seen >= min_visible * tf.maximum(whole, 1.0)))


def _cut_masks(truth: GroundTruth, cover: tf.Tensor, min_visible: float) -> GroundTruth:
    """Take the cover from the masks, leave out what is mostly hidden, and fit the boxes of what is partly."""
    before = tf.reduce_sum(tf.cast(truth.masks > 0, tf.float32), [1, 2])
    masks = tf.where(cover, tf.zeros_like(truth.masks), truth.masks)
    after = tf.reduce_sum(tf.cast(masks > 0, tf.float32), [1, 2])
    boxes = tf.where((after < before)[:, tf.newaxis], boxes_of_masks(masks), truth.boxes)
    kept = (before == 0.0) | ((after > 0.0) & (after >= min_visible * before))
    return keep_objects(truth._replace(masks=masks, boxes=boxes), kept)


def boxes_of_masks(masks: tf.Tensor) -> tf.Tensor:
    """Return float32 [G, 4], the box around each mask [G, H, W], normalised; zero where a mask is empty."""
    sides = []
    for axis in (2, 1):
        shown = tf.reduce_any(masks > 0, axis=axis)  # [G, rows], then [G, columns]
        length = tf.shape(shown)[1]
        numbers = tf.range(length)
        first = tf.reduce_min(tf.where(shown, numbers, length), axis=1)
        end = tf.reduce_max(tf.where(shown, numbers + 1, 0), axis=1)
        some = tf.reduce_any(shown, axis=1)
        ends = tf.stack([tf.where(some, first, 0), end], axis=1)
        sides.append(tf.cast(ends, tf.float32) / tf.cast(length, tf.float32))
    return tf.stack([sides[0][:, 0], sides[1][:, 0], sides[0][:, 1], sides[1][:, 1]], axis=1)
