"""The interface of detectors that training, evaluation, quantization and export use.

Intermediate predictions and the number of networks are internal to each detector.
"""

import abc
import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, Generic, Protocol, Self, TypeVar

import tensorflow as tf
import tf_keras

from detection_core.errors import ModelError
from detection_core.structures import FIRST_CLASS, Batch, Detections, Images

REGULARIZATION_LOSS = "Loss/regularization_loss"
TOTAL_LOSS = "Loss/total_loss"


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputShape:
    """Smallest and largest rows and columns of a detector's images after resizing and padding."""

    smallest: tuple[int, int]
    largest: tuple[int, int]

    @classmethod
    def fixed(cls, size: tuple[int, int]) -> "InputShape":
        """Return the input shape of a detector that takes images of one size."""
        return cls(smallest=size, largest=size)

    @property
    def size(self) -> tuple[int, int] | None:
        """Return the one size of all images; None if there are only bounds."""
        return self.smallest if self.smallest == self.largest else None


class Detector(tf.Module, abc.ABC):
    """A detector: methods on one or several networks, without state between calls.

    Attributes:
        num_classes: C, without the background.
    """

    num_classes: int

    @property
    @abc.abstractmethod
    def networks(self) -> Mapping[str, tf_keras.Model]:
        """Return name to network: one for a one-stage detector, several for a two-stage detector.

        A property, so that checkpoints track each network under the family's attribute.
        """

    def runs_per_image(self, name: str) -> int:
        """Return how many times a network of `networks` runs to detect the objects of an image, at most."""
        return 1

    @property
    def channels(self) -> int:
        """Return the number of channels of images: colours, then additional ones."""
        return int(next(iter(self.networks.values())).inputs[0].shape[-1])

    @property
    @abc.abstractmethod
    def input_shape(self) -> InputShape:
        """Return the allowed rows and columns of images."""

    @abc.abstractmethod
    def losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        """Compute the losses of a batch.

        The network's outputs are first cast to float32, because training may use lower precision.

        Args:
            batch: images of `input_shape` and their ground truth, boxes normalised to the network input. A
                two-stage detector samples its proposals with the truth.
            training: use and update batch statistics, apply dropout.

        Returns:
            float32 scalars: the parts, under the family's names and in the order of their sum; and their sum,
            `TOTAL_LOSS`. `REGULARIZATION_LOSS` is the regularization of the weights.
        """

    def gradient_factor(self, images: int) -> float:
        """Return the factor applied before clipping to the gradients of a batch, given its size."""
        return 1.0

    @abc.abstractmethod
    def detect(self, images: Images) -> Detections:
        """Detect objects in inference mode; boxes are normalised to the true images."""

    def serving_outputs(self, images: Images) -> dict[str, tf.Tensor]:
        """Return a SavedModel's outputs: `named_detections`, and further ones of a family."""
        return named_detections(self.detect(images))

    @property
    def variables(self) -> list[tf.Variable]:
        """Return the variables of all networks, network after network, without duplicates."""
        return _unique(v for network in self.networks.values() for v in network.variables)

    @property
    def trainable_variables(self) -> list[tf.Variable]:
        """Return the trainable variables of all networks, network after network, without duplicates."""
        return _unique(v for network in self.networks.values() for v in network.trainable_variables)


class _Parts(Protocol):
    @property
    def input_size(self) -> tuple[int, int]: ...


P = TypeVar("P", bound=_Parts)


class OneNetworkDetector(Detector, Generic[P]):
    """A detector whose convolutions are all in one network, which can be rewritten.

    Attributes:
        network: flat functional network of stock layers; its input is float32 [B, H, W, 3], preprocessed.
        parts: its parts besides the network.
    """

    def __init__(self, name: str, network: tf_keras.Model, parts: P, num_classes: int) -> None:
        super().__init__(name=name)
        self.network = network
        self.num_classes = num_classes
        self.parts = parts

    @property
    def networks(self) -> Mapping[str, tf_keras.Model]:
        """Return the one network."""
        return {"detector": self.network}

    @property
    def input_shape(self) -> InputShape:
        """Return the one size of images; see `Detector.input_shape`."""
        return InputShape.fixed(self.parts.input_size)

    @abc.abstractmethod
    def preprocess(self, pixels: tf.Tensor) -> tf.Tensor:
        """Normalise resized and padded pixels, float32 [B, H, W, 3], RGB, 0..255, as the network expects."""

    def with_network(self, network: tf_keras.Model) -> Self:
        """Return the same detector with a rewritten network that has the same inputs and outputs."""
        return type(self)(network, self.parts)  # type: ignore[call-arg]


def check_size(pixels: tf.Tensor, size: tuple[int, int]) -> None:
    """Check the static rows and columns of images, float32 [B, H, W, 3]; ModelError when they differ."""
    found = tuple(pixels.shape[1:3])
    if any(side not in (None, own) for side, own in zip(found, size, strict=True)):
        raise ModelError(
            f"expected images of {size[0]}x{size[1]}, found {found[0]}x{found[1]};"
            " resize them as the config's image_resizer says"
        )


def inside_images(sizes: tf.Tensor, shape: tuple[int, int]) -> tf.Tensor:
    """Return float32 [B, rows, columns, 1], 1 where maps of a shape hold the image and 0 in its padding.

    Sizes are int32 or float32 [B, 2], rows and columns of the image.
    """
    rows, columns = (
        tf.cast(tf.range(side, dtype=sizes.dtype) < sizes[:, axis, tf.newaxis], tf.float32)
        for axis, side in enumerate(shape)
    )
    return (rows[:, :, tf.newaxis] * columns[:, tf.newaxis])[..., tf.newaxis]


def by_level(values: tf.Tensor, shapes: Iterable[tuple[int, int, int]]) -> list[tf.Tensor]:
    """Split predictions, float32 [B, A, K], into maps [B, rows, columns, anchors * K] of the levels.

    Predictions are ordered level after level, row by row. Shapes are rows, columns and anchors per location.
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
    """Cast a network's outputs to float32."""
    return [tf.cast(output, tf.float32) for output in outputs]


def count_parameters(variables: Iterable[Any]) -> int:
    """Return the number of elements in the variables."""
    return sum(int(variable.shape.num_elements()) for variable in variables)


def with_total(losses: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Return the losses with their sum in order, as `TOTAL_LOSS`; an existing total is ignored."""
    parts = {name: value for name, value in losses.items() if name != TOTAL_LOSS}
    first, *rest = parts.values()
    return parts | {TOTAL_LOSS: sum(rest, start=first)}


def named_detections(detections: Detections) -> dict[str, tf.Tensor]:
    """Name detections of B images, D rows, as in the Object Detection API's exported models.

    Returns:
        All float32: detection_boxes [B, D, 4] (ymin, xmin, ymax, xmax, normalised), detection_scores [B, D],
        detection_classes [B, D] (from 1) and num_detections [B]. If the detector finds them, also
        detection_masks [B, D, h, w] and detection_keypoints [B, D, K, 2] (y, x, normalised). Rows past
        num_detections are 0, except classes.
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
