"""Augmentations that combine images: mixup, mosaic, copy-paste, and the chain that runs them.

The other images come from a pool: the images that follow in training order. Random numbers depend only on the
image's seed. So threads and the step of a resume do not change them. Images of the pool pass all steps before
the mixing one, with another seed: they never look the same twice.
"""

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal

import tensorflow as tf

from detection_core.augment.augmentation import (
    Augmentation,
    apply_with_probability,
    in_floats,
    random_int,
    scaled,
    uniforms,
)
from detection_core.augment.crops import fitting_size, in_larger_frame, joined_objects, place
from detection_core.ops.objects import keep_objects
from detection_core.structures import GroundTruth, Sample

# Separates the random streams of an image's partners from the image's streams.
_PARTNER = 1_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pool:
    """Samples to mix.

    Attributes:
        size: int64 [], number of samples, at least 1.
        read: maps an int64 [] index to the decoded sample; 0 is the sample to change.
    """

    size: tf.Tensor
    read: Callable[[tf.Tensor], Sample]


class Mixing(ABC):
    """An augmentation that uses further samples."""

    @abstractmethod
    def __call__(self, sample: Sample, partner: Callable[[int], Sample], seed: tf.Tensor) -> Sample:
        """Augment the sample.

        Args:
            sample: image uint8 or float32 [H, W, 3], 0..255, boxes normalised to it.
            partner: maps an index from 0 to another sample, distinct if the pool is large enough. Samples are
                computed on demand.
            seed: int64 [2].

        Returns:
            The sample with a float32 image; the fields of the truth keep their common order.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixedAugmentations:
    """Augmentations applied in the given order; some may mix."""

    steps: tuple[Augmentation | Mixing, ...]

    def __call__(self, pool: Pool, seed: tf.Tensor, *, mixes: tf.Tensor) -> Sample:
        """Apply all steps to sample 0 of a pool; `mixes`, bool [], is False to skip the mixing steps."""
        return self._changed(len(self.steps), pool, tf.constant(0, tf.int64), seed, mixes)

    def _changed(
        self, count: int, pool: Pool, number: tf.Tensor, seed: tf.Tensor, mixes: tf.Tensor
    ) -> Sample:
        """Return a sample of the pool after the first `count` steps."""
        sample = pool.read(number)
        for i, step in enumerate(self.steps[:count]):
            own = tf.random.fold_in(seed, i)
            if not isinstance(step, Mixing):
                sample = step(sample, own)
                continue
            partner = functools.partial(self._partner, i, pool, number, own, mixes)
            sample = tf.cond(
                mixes,
                lambda s=sample, step=step, partner=partner, own=own: step(s, partner, own),
                lambda s=sample: in_floats(s),
            )
        return sample

    def _partner(
        self, count: int, pool: Pool, number: tf.Tensor, seed: tf.Tensor, mixes: tf.Tensor, i: int
    ) -> Sample:
        """Return partner `i` of a sample, after the first `count` steps."""
        own = tf.random.fold_in(seed, _PARTNER + i)
        return self._changed(count, pool, partner_number(pool.size, number, i, seed), own, mixes)


def partner_number(size: tf.Tensor, number: tf.Tensor, i: int, seed: tf.Tensor) -> tf.Tensor:
    """Draw the index of partner `i` of sample `number`, int64 []; in a pool of one, the sample itself."""
    order = tf.random.experimental.stateless_shuffle(tf.range(1, size), tf.random.fold_in(seed, _PARTNER - 1))
    return tf.cond(
        size > 1,
        lambda: (number + order[tf.cast(i, tf.int64) % (size - 1)]) % size,
        lambda: tf.identity(number),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixUp(Mixing):
    """Blend an image with another, without changing their geometry.

    Both lie in the upper left of a frame that holds the two. Each image's objects are weighted by its part of
    the blend.

    Zhang et al., "Bag of Freebies for Training Object Detection Neural Networks", 2019,
    https://arxiv.org/abs/1902.04103.

    Attributes:
        probability: of a blend.
        alpha: the image's part of the blend is drawn from Beta(alpha, alpha).
    """

    probability: float = 1.0
    alpha: float = 1.5

    def __call__(self, sample: Sample, partner: Callable[[int], Sample], seed: tf.Tensor) -> Sample:
        """Augment the sample."""

        def blend(first: Sample) -> Sample:
            return blended(first, partner(0), self.part(tf.random.fold_in(seed, 1)))

        return apply_with_probability(uniforms(seed, 1)[0], self.probability, blend, in_floats(sample))

    def part(self, seed: tf.Tensor) -> tf.Tensor:
        """Draw the image's part of the blend, float32 []."""
        # For two gamma variates, each one's part of their sum has a beta distribution.
        gammas = tf.random.stateless_gamma([2], seed, self.alpha)
        return tf.math.divide_no_nan(gammas[0], gammas[0] + gammas[1])


def blended(first: Sample, second: Sample, part: tf.Tensor) -> Sample:
    """Blend two samples; the first one's id stays, and `part` (float32 [], 0 to 1) is its weight."""
    sizes = [tf.shape(sample.image)[:2] for sample in (first, second)]
    frame, corner = tf.maximum(*sizes), tf.zeros([2], tf.int32)
    samples = [
        place(sample, scaled=size, offset=corner, frame=frame)
        for sample, size in zip((first, second), sizes, strict=True)
    ]
    parts = (part, 1.0 - part)
    truths = [
        sample.truth._replace(weights=sample.truth.weights * weight)
        for sample, weight in zip(samples, parts, strict=True)
    ]
    image = samples[0].image * parts[0] + samples[1].image * parts[1]
    return first._replace(image=image, truth=joined_objects(truths))


Fit = Literal["STRETCH", "KEEP_ASPECT_RATIO"]
GREY = (114.0, 114.0, 114.0)
"""Default colour around mixed images."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mosaic(Mixing):
    """Join an image with three others, two above and two below a random point.

    Bochkovskiy et al., "YOLOv4: Optimal Speed and Accuracy of Object Detection", 2020,
    https://arxiv.org/abs/2004.10934. `STRETCH`, as in google/automl's EfficientDet, stretches each image to
    its quarter. `KEEP_ASPECT_RATIO`, as in the YOLO family, scales each image to fit half the mosaic's sides,
    with a corner at the point.

    Attributes:
        probability: of a mosaic.
        height: rows of the mosaic.
        width: columns of the mosaic.
        min_fraction: minimum distance of the point from the border, as a fraction of the sides.
        fit: how an image fills its quarter.
        min_visible: an object stays if at least this fraction of its box is in the quarter.
        per_channel_pad_value: R, G and B of the empty area; none: `GREY`.
    """

    probability: float = 1.0
    height: int = 680
    width: int = 680
    min_fraction: float = 0.25
    fit: Fit = "STRETCH"
    min_visible: float = 0.1
    per_channel_pad_value: tuple[float, ...] = ()

    def __call__(self, sample: Sample, partner: Callable[[int], Sample], seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws = uniforms(seed, 3)

        def mosaic(first: Sample) -> Sample:
            return self.joined([first, *(partner(i) for i in range(3))], self.point(draws[1:]))

        return apply_with_probability(draws[0], self.probability, mosaic, in_floats(sample))

    def point(self, draws: tf.Tensor) -> tf.Tensor:
        """Map float32 [2] draws from [0, 1) to the point where images meet, int32 [2], row and column."""
        sides = [
            random_int(draws[i], int(side * self.min_fraction), int(side * (1.0 - self.min_fraction)) - 1)
            for i, side in enumerate((self.height, self.width))
        ]
        return tf.maximum(tf.stack(sides), 1)

    def joined(self, samples: Sequence[Sample], point: tf.Tensor) -> Sample:
        """Join four samples: above left of the point (int32 [2]), below left, above right, below right."""
        whole = tf.constant([self.height, self.width])
        quarters = []
        for number, sample in enumerate(samples):
            after = tf.constant([number % 2, number // 2])
            corner = after * point
            frame = tf.where(after == 1, whole - point, point)
            quarter = self._quarter(sample, frame, after)
            truth = in_larger_frame(quarter.truth, corner=corner, frame=frame, larger=whole)
            quarters.append(quarter._replace(truth=truth))
        images = [quarter.image for quarter in quarters]
        image = tf.concat([tf.concat(images[:2], 0), tf.concat(images[2:], 0)], 1)
        return samples[0]._replace(
            image=tf.ensure_shape(image, [self.height, self.width, samples[0].image.shape[-1]]),
            truth=joined_objects([quarter.truth for quarter in quarters]),
        )

    def _quarter(self, sample: Sample, frame: tf.Tensor, after: tf.Tensor) -> Sample:
        """Place an image in its quarter; `after` is 1 for rows and columns behind the point, else 0."""
        if self.fit == "STRETCH":
            return place(sample, scaled=frame, offset=tf.zeros([2], tf.int32), frame=frame)
        half = tf.constant([self.height, self.width], tf.float32) / 2.0
        scaled = fitting_size(sample, half)
        return place(
            sample,
            scaled=scaled,
            offset=tf.where(after == 1, 0, frame - scaled),
            frame=frame,
            min_visible=self.min_visible,
            pad_value=self.per_channel_pad_value or GREY,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CopyPaste(Mixing):
    """Paste some objects of another image onto this one, scaled and moved with it.

    With masks, the objects' pixels are pasted, and hidden objects' masks and boxes are cut. Without masks,
    the boxes' rectangles are pasted. Crowds are never pasted.

    Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation", 2021,
    https://arxiv.org/abs/2012.07177. For rectangles compare Dwibedi et al., "Cut, Paste and Learn", 2017,
    https://arxiv.org/abs/1708.01642.

    Attributes:
        probability: of pasting.
        object_probability: of pasting each object of the other image.
        scale_min: smallest factor of the other image, relative to the size that fits this one.
        scale_max: largest factor.
        min_visible: an object stays if at least this fraction of it is neither hidden nor outside.
    """

    probability: float = 1.0
    object_probability: float = 0.5
    scale_min: float = 0.5
    scale_max: float = 1.5
    min_visible: float = 0.3

    def __call__(self, sample: Sample, partner: Callable[[int], Sample], seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        draws = uniforms(seed, 4)

        def paste(below: Sample) -> Sample:
            other, frame = partner(0), tf.shape(below.image)[:2]
            # Inside the frame, or so that it covers the frame.
            whole = fitting_size(other, frame, scaled(draws[1], self.scale_min, self.scale_max))
            offset = tf.cast(tf.round(tf.cast(frame - whole, tf.float32) * draws[2:]), tf.int32)
            placed = place(other, scaled=whole, offset=offset, frame=frame, min_visible=self.min_visible)
            chosen = tf.random.stateless_uniform(tf.shape(placed.truth.classes), tf.random.fold_in(seed, 1))
            kept = (chosen < self.object_probability) & ~placed.truth.is_crowd
            above = placed._replace(truth=keep_objects(placed.truth, kept))
            return pasted(below, above, min_visible=self.min_visible)

        return apply_with_probability(draws[0], self.probability, paste, in_floats(sample))


def pasted(below: Sample, above: Sample, *, min_visible: float) -> Sample:
    """Paste all objects of `above` onto `below`, of the same size; the rest of its image is not used.

    An object of `below` stays if at least the fraction `min_visible` of it is still visible.
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
    """Return uint8 [G, rows, columns], 1 where a pixel's centre is in a box [G, 4]."""
    y = (tf.range(tf.cast(rows, tf.float32)) + 0.5) / tf.cast(rows, tf.float32)
    x = (tf.range(tf.cast(columns, tf.float32)) + 0.5) / tf.cast(columns, tf.float32)
    ymin, xmin, ymax, xmax = tf.unstack(boxes[:, :, tf.newaxis], axis=1)
    in_rows, in_columns = (y >= ymin) & (y < ymax), (x >= xmin) & (x < xmax)
    return tf.cast(in_rows[:, :, tf.newaxis] & in_columns[:, tf.newaxis], tf.uint8)


def _uncovered_boxes(truth: GroundTruth, cover: tf.Tensor, min_visible: float) -> GroundTruth:
    shape = tf.shape(cover)
    inside = tf.cast(rectangles(truth.boxes, shape[0], shape[1]), tf.float32)
    seen = tf.reduce_sum(inside * tf.cast(~cover, tf.float32), [1, 2])
    whole = tf.reduce_sum(inside, [1, 2])
    # A box thinner than a pixel covers no pixel centre, so its visibility is unknown, and it stays.
    return keep_objects(truth, (whole == 0.0) | (seen >= min_visible * tf.maximum(whole, 1.0)))


def _cut_masks(truth: GroundTruth, cover: tf.Tensor, min_visible: float) -> GroundTruth:
    """Remove covered pixels from masks, remove mostly hidden objects, and refit partly hidden boxes."""
    before = tf.reduce_sum(tf.cast(truth.masks > 0, tf.float32), [1, 2])
    masks = tf.where(cover, tf.zeros_like(truth.masks), truth.masks)
    after = tf.reduce_sum(tf.cast(masks > 0, tf.float32), [1, 2])
    boxes = tf.where((after < before)[:, tf.newaxis], boxes_of_masks(masks), truth.boxes)
    kept = (before == 0.0) | ((after > 0.0) & (after >= min_visible * before))
    return keep_objects(truth._replace(masks=masks, boxes=boxes), kept)


def boxes_of_masks(masks: tf.Tensor) -> tf.Tensor:
    """Return float32 [G, 4], the normalised box around each mask [G, H, W]; zero for an empty mask."""
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
