"""Mosaics of four images."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal

import tensorflow as tf

from detection_core.augment.augmentation import apply_with_probability, random_int, uniforms
from detection_core.augment.framing import in_larger_frame, joined_objects, place
from detection_core.augment.mixing import Mixing, unmixed
from detection_core.structures import Sample

Fit = Literal["STRETCH", "KEEP_ASPECT_RATIO"]
GREY = (114.0, 114.0, 114.0)
"""What surrounds images that were mixed, where a config names no colour."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mosaic(Mixing):
    """Join an image with three others, two above and two below a random point.

    Bochkovskiy et al., "YOLOv4: Optimal Speed and Accuracy of Object Detection", 2020,
    https://arxiv.org/abs/2004.10934. `STRETCH` is the mosaic of google/automl's EfficientDet: each image is
    stretched to its quarter. `KEEP_ASPECT_RATIO` is that of the YOLO family: each is scaled to fit half the
    mosaic's sides and lies with a corner at the point.

    Attributes:
        probability: of a mosaic.
        height: rows of it.
        width: columns of it.
        min_fraction: of the sides, by which the point stays away from the border.
        fit: how an image fills its quarter.
        min_visible: an object stays if at least this fraction of its box is in the quarter.
        per_channel_pad_value: R, G and B of what stays empty; none: `GREY`.
    """

    probability: float = 1.0
    height: int = 680
    width: int = 680
    min_fraction: float = 0.25
    fit: Fit = "STRETCH"
    min_visible: float = 0.1
    per_channel_pad_value: tuple[float, ...] = ()

    def __call__(self, sample: Sample, partner: Callable[[int], Sample], seed: tf.Tensor) -> Sample:
        """Change the sample."""
        draws = uniforms(seed, 3)

        def mosaic(first: Sample) -> Sample:
            return self.joined([first, *(partner(i) for i in range(3))], self.point(draws[1:]))

        return apply_with_probability(draws[0], self.probability, mosaic, unmixed(sample))

    def point(self, draws: tf.Tensor) -> tf.Tensor:
        """Choose where the images meet, int32 [2], row and column; draws are float32 [2] of [0, 1)."""
        sides = [
            random_int(draws[i], int(side * self.min_fraction), int(side * (1.0 - self.min_fraction)) - 1)
            for i, side in enumerate((self.height, self.width))
        ]
        return tf.maximum(tf.stack(sides), 1)

    def joined(self, samples: Sequence[Sample], point: tf.Tensor) -> Sample:
        """Return the mosaic.

        Args:
            samples: four: above and left of the point, below and left, above and right, below and right.
            point: int32 [2], row and column.
        """
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
            image=tf.ensure_shape(image, [self.height, self.width, 3]),
            truth=joined_objects([quarter.truth for quarter in quarters]),
        )

    def _quarter(self, sample: Sample, frame: tf.Tensor, after: tf.Tensor) -> Sample:
        """Lay an image into its quarter; `after` is 1 for rows and columns behind the point, else 0."""
        if self.fit == "STRETCH":
            return place(sample, scaled=frame, offset=tf.zeros([2], tf.int32), frame=frame)
        size = tf.cast(tf.shape(sample.image)[:2], tf.float32)
        half = tf.constant([self.height, self.width], tf.float32) / 2.0
        scaled = tf.maximum(tf.cast(tf.round(size * tf.reduce_min(half / size)), tf.int32), 1)
        return place(
            sample,
            scaled=scaled,
            offset=tf.where(after == 1, 0, frame - scaled),
            frame=frame,
            min_visible=self.min_visible,
            pad_value=self.per_channel_pad_value or GREY,
        )
