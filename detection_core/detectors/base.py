"""What training, evaluation, quantization and export may know of any detector.

What a detector predicts before it detects, and how many networks it does it with, is its own business.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from detection_core.structures import FIRST_CLASS, Batch, Detections, Images

REGULARIZATION_LOSS = "Loss/regularization_loss"
TOTAL_LOSS = "Loss/total_loss"


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputShape:
    """Rows and columns that a detector's images may have after resizing and padding.

    Attributes:
        smallest: least rows and columns.
        largest: most rows and columns; equal to `smallest` where all images have one size.
    """

    smallest: tuple[int, int]
    largest: tuple[int, int]

    @classmethod
    def fixed(cls, size: tuple[int, int]) -> InputShape:
        """Return the shape of a detector that takes images of one size."""
        return cls(smallest=size, largest=size)

    @property
    def size(self) -> tuple[int, int] | None:
        """The one size that images have; None where there are only bounds."""
        return self.smallest if self.smallest == self.largest else None


class Detector(tf.Module, abc.ABC):
    """A detector: verbs around one or several networks, and no memory between them.

    Attributes:
        num_classes: C, without the background.
    """

    num_classes: int

    @property
    @abc.abstractmethod
    def networks(self) -> Mapping[str, tf_keras.Model]:
        """Name to network: one for a one-stage detector, several for a two-stage detector.

        A property, so that checkpoints hold each network under the attribute that the family keeps it in.
        """

    @property
    @abc.abstractmethod
    def input_shape(self) -> InputShape:
        """Rows and columns of the images that it takes."""

    @abc.abstractmethod
    def losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        """Compare what is predicted for images with their ground truth.

        Args:
            batch: images of `input_shape` and their ground truth, boxes normalised to the network input. A
                two-stage detector samples its proposals with the truth.
            training: normalise with batch statistics and collect them, drop features.

        What the network gives is taken as float32 first: in training it may compute with fewer bits.

        Returns:
            float32 scalars: the parts, under the names that the family lists, in the order in which they are
            added up; and their sum, `TOTAL_LOSS`. The regularization of the weights is `REGULARIZATION_LOSS`.
        """

    def gradient_factor(self, images: int) -> float:
        """Return what the gradients of a batch are multiplied by in training, before they are clipped.

        Args:
            images: of the batch.
        """
        return 1.0

    @abc.abstractmethod
    def detect(self, images: Images) -> Detections:
        """Detect objects, in inference form.

        Args:
            images: a batch of `input_shape`.

        Returns:
            Detections normalised to the true images.
        """

    def serving_outputs(self, images: Images) -> dict[str, tf.Tensor]:
        """Return what a SavedModel's signature gives; a family may add outputs.

        Args:
            images: a batch of `input_shape`.

        Returns:
            As `named_detections`.
        """
        return named_detections(self.detect(images))

    @property
    def variables(self) -> list[tf.Variable]:
        """The variables of all networks, network after network, each once."""
        return _unique(v for network in self.networks.values() for v in network.variables)

    @property
    def trainable_variables(self) -> list[tf.Variable]:
        """The trainable variables of all networks, network after network, each once."""
        return _unique(v for network in self.networks.values() for v in network.trainable_variables)


def by_level(values: tf.Tensor, shapes: Iterable[tuple[int, int, int]]) -> list[tf.Tensor]:
    """Split what a network predicts for its anchors into the maps of its levels.

    Args:
        values: float32 [B, A, K], level after level, row by row.
        shapes: rows, columns and anchors at each place of every level.

    Returns:
        float32 [B, rows, columns, anchors * K] of each.
    """
    shapes = list(shapes)
    parts = tf.split(values, [math.prod(shape) for shape in shapes], axis=1)
    return [
        tf.reshape(part, [-1, rows, columns, anchors * values.shape[2]])
        for part, (rows, columns, anchors) in zip(parts, shapes, strict=True)
    ]


def _unique(variables: Iterable[tf.Variable]) -> list[tf.Variable]:
    return list({id(variable): variable for variable in variables}.values())


def in_float32(outputs: Iterable[tf.Tensor]) -> list[tf.Tensor]:
    """Return a network's outputs as float32, whatever its layers compute in."""
    return [tf.cast(output, tf.float32) for output in outputs]


def count_parameters(variables: Iterable[Any]) -> int:
    """Return how many numbers are in variables."""
    return sum(int(variable.shape.num_elements()) for variable in variables)


def with_total(losses: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Return the losses with their sum, added up in their order, as `TOTAL_LOSS`.

    Args:
        losses: name to float32 []; a total among them does not count.
    """
    parts = {name: value for name, value in losses.items() if name != TOTAL_LOSS}
    first, *rest = parts.values()
    return parts | {TOTAL_LOSS: sum(rest, start=first)}


def named_detections(detections: Detections) -> dict[str, tf.Tensor]:
    """Name detections as the Object Detection API's exported models do.

    Args:
        detections: of B images, D rows.

    Returns:
        All float32: detection_boxes [B, D, 4] (ymin, xmin, ymax, xmax, normalised), detection_scores [B, D],
        detection_classes [B, D] (from 1) and num_detections [B]; of a detector that finds them also
        detection_masks [B, D, h, w] and detection_keypoints [B, D, K, 2] (y, x, normalised). Rows past
        num_detections are 0, but for classes.
    """
    named = {
        "detection_boxes": detections.boxes,
        "detection_scores": detections.scores,
        "detection_classes": detections.classes + FIRST_CLASS,
        "num_detections": detections.count,
    }
    filled = tf.sequence_mask(detections.count, tf.shape(detections.scores)[1])[..., tf.newaxis, tf.newaxis]
    if 0 not in detections.masks.shape[2:]:
        named["detection_masks"] = tf.where(filled, detections.masks, 0.0)
    if detections.keypoints.shape[2] != 0:
        named["detection_keypoints"] = tf.where(filled, detections.keypoints, 0.0)
    return {name: tf.cast(value, tf.float32) for name, value in named.items()}
