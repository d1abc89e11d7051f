"""Call a .tflite file like a served SavedModel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.artifacts.tflite_file import read_tflite
from detection_core.artifacts.tflite_metadata import find_description
from detection_core.config.automl.hyperparameters import HyperParameters
from detection_core.data.resize import AutomlResizer
from detection_core.evaluation.served_model import BatchDetections
from detection_core.evaluation.tflite_runner import Normalisation, TFLiteRunner
from detection_core.structures import FIRST_CLASS

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
        labels = described.labels if described else ()
        self.label_map = dict(enumerate(labels, start=FIRST_CLASS))
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
        return Normalisation(mean=values.mean_rgb, std=values.stddev_rgb)
    # google/automl then scales the normalised range 0..255 to -1..1; both fit in one mean and std.
    pairs = zip(values.mean_rgb, values.stddev_rgb, strict=True)
    mean = tuple(mean + _HALF_RANGE * std for mean, std in pairs)
    return Normalisation(mean=mean, std=tuple(_HALF_RANGE * std for std in values.stddev_rgb))
