"""Call a SavedModel like its clients, batches in and boxes in pixels out, and a .tflite file likewise."""

import itertools
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from detection_core.artifacts.tflite_file import read_tflite
from detection_core.artifacts.tflite_metadata import find_description
from detection_core.config.automl.hyperparameters import HyperParameters
from detection_core.data.resize import AutomlResizer
from detection_core.detectors.family import Normalisation
from detection_core.errors import ModelError
from detection_core.evaluation.loaded_model import SIGNATURE, load_saved_model
from detection_core.evaluation.tflite_runner import TFLiteRunner
from detection_core.structures import FIRST_CLASS

_OURS = ("detection_boxes", "detection_scores", "detection_classes", "num_detections")
_AUTOML = ("output_0", "output_1", "output_2", "output_3")


class BatchDetections(NamedTuple):
    """Detections of a batch, in the order of google/automl's driver.

    Attributes:
        boxes: float32 [B, D, 4], ymin, xmin, ymax, xmax in pixels of the image.
        scores: float32 [B, D].
        classes: float32 [B, D], from 1.
        valid_len: int32 [B], number of the D rows that are detections.
    """

    boxes: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    valid_len: np.ndarray


class ServedModel:
    """A SavedModel of images with the Object Detection API's or google/automl's signature.

    Attributes:
        path: source folder.
        batch_size: fixed batch size of requests; None: any.
    """

    def __init__(self, path: str, *, trust: bool = False) -> None:
        """Load a detector folder or a SavedModel; `trust` it even if it does more than compute.

        Raises:
            ModelError: if it does not take images, cannot be loaded, or does more than compute.
            ContractError: if there is no SavedModel.
        """
        self.path = path
        self._loaded = load_saved_model(path, trust=trust)
        inputs, outputs = self._loaded.inputs, self._loaded.outputs
        names = next((names for names in (_OURS, _AUTOML) if set(names) <= set(outputs)), None)
        if [spec.dtype for spec in inputs.values()] != [tf.uint8] or names is None:
            raise ModelError(
                f"expected a signature {SIGNATURE!r} that takes uint8 images and gives detections, found"
                f" inputs {list(inputs.values())} and outputs {sorted(outputs)}; export the model with"
                " --input-type image_tensor",
                where=path,
            )
        ((self._input, spec),) = inputs.items()
        self.batch_size: int | None = spec.shape[0]
        self._names = names

    @property
    def signatures(self) -> dict[str, Any]:
        """Name to signature."""
        return dict(self._loaded.signatures)

    def __call__(self, images: np.ndarray) -> BatchDetections:
        """Detect objects in uint8 [B, H, W, 3], RGB, split to a fixed batch size.

        Raises:
            ModelError: if their number is not a multiple of the model's batch size.
        """
        size = self.batch_size or len(images)
        if not len(images) or len(images) % size:
            raise ModelError(
                f"expected a multiple of {size} images, as the model takes, found {len(images)}; export it"
                " with --batch-size 0",
                where=self.path,
            )
        parts = [self._detect(images[start : start + size]) for start in range(0, len(images), size)]
        return BatchDetections(*(np.concatenate(values) for values in zip(*parts, strict=True)))

    def run(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Run the signature on a batch and return its outputs unchanged."""
        return self._loaded(**{self._input: images})

    def _detect(self, images: np.ndarray) -> BatchDetections:
        outputs = self.run(tf.constant(images))
        boxes, scores, classes, count = (np.asarray(outputs[name]) for name in self._names)
        if self._names is _OURS:
            boxes = boxes * np.tile(np.float32(images.shape[1:3]), 2)
        return BatchDetections(boxes, scores, classes, count.astype(np.int32))


def stacked(images: Sequence[np.ndarray]) -> list[list[int]]:
    """Return the indices of images that fit into one array: runs of equal shape, in order."""
    by_shape = itertools.groupby(range(len(images)), lambda place: images[place].shape)
    return [list(places) for _, places in by_shape]


_HALF_RANGE = 127.5


class ServedFile:
    """A file that takes one image at a time.

    Attributes:
        label_map: class ids, from 1, to names, from the file.
        signatures: always empty.
        is_automl: whether it is a google/automl file, which keeps the aspect ratio of images.
    """

    def __init__(self, path: str, values: HyperParameters | None = None) -> None:
        """Load the file.

        Args:
            path: of the file.
            values: hyper-parameters for a google/automl file, which does not record its normalisation.
                Ignored for files that do.

        Raises:
            ModelError: if it is not a TensorFlow Lite detector, or its normalisation is unknown.
        """
        described = find_description(read_tflite(path), where=path)
        self.is_automl = described is None and values is not None
        self._resizer = _resizer(values) if values and self.is_automl else None
        normalisation = _normalisation(values) if values and self.is_automl else None
        self._runner = TFLiteRunner(path, threads=os.cpu_count() or 1, normalisation=normalisation)
        self.label_map = dict(enumerate(described.labels if described else (), start=FIRST_CLASS))
        self.signatures: dict[str, Any] = {}

    def __call__(self, images: np.ndarray) -> BatchDetections:
        """Detect objects in uint8 [B, H, W, 3], RGB."""
        found = [self._runner(self._placed(image)) for image in images]
        counts = np.asarray([len(one.scores) for one in found], np.int32)

        def padded(values: Sequence[np.ndarray]) -> np.ndarray:
            rows = [np.pad(v, [(0, counts.max() - len(v)), *[(0, 0)] * (v.ndim - 1)]) for v in values]
            return np.stack(rows).astype(np.float32)

        sides = np.asarray(images.shape[1:3], np.float32)
        boxes = [np.minimum(one.boxes * np.tile(self._frame(sides), 2), np.tile(sides, 2)) for one in found]
        classes = padded([one.classes + FIRST_CLASS for one in found])
        return BatchDetections(padded(boxes), padded([one.scores for one in found]), classes, counts)

    def run(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Detect objects; the result has the form of a signature's."""
        return {"boxes": tf.constant(self(images.numpy()).boxes)}

    def _placed(self, image: np.ndarray) -> np.ndarray:
        if self._resizer is None:
            return image
        none = tf.zeros([0, *image.shape[:2]], tf.uint8)
        return np.asarray(self._resizer(tf.constant(image), none).image)

    def _frame(self, sides: np.ndarray) -> np.ndarray:
        """Return the size of the padded network input, in pixels of the image."""
        if self._resizer is None:
            return sides
        network = np.asarray([self._resizer.height, self._resizer.width], np.float32)
        return np.asarray(network / (network / sides).min())


def _resizer(values: HyperParameters) -> AutomlResizer:
    height, width = values.image_size
    return AutomlResizer(height=height, width=width, per_channel_pad_value=values.mean_rgb)


def _normalisation(values: HyperParameters) -> Normalisation:
    if not values.scale_range:
        return values.mean_rgb, values.stddev_rgb
    # google/automl then scales the normalised range 0..255 to -1..1; both fit in one mean and std.
    pairs = zip(values.mean_rgb, values.stddev_rgb, strict=True)
    mean = tuple(mean + _HALF_RANGE * std for mean, std in pairs)
    return mean, tuple(_HALF_RANGE * std for std in values.stddev_rgb)
