"""Call a SavedModel like its clients: batches in, detections with boxes in pixels out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.evaluation.loaded_model import SIGNATURE, load_saved_model

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
        """Load the model.

        Args:
            path: a detector folder or a SavedModel's.
            trust: run it even if its graph does more than compute.

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
        """Detect objects.

        Args:
            images: uint8 [B, H, W, 3], RGB; for a model with a fixed batch size they are split.

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
    groups: list[list[int]] = []
    for place, image in enumerate(images):
        if groups and images[groups[-1][-1]].shape == image.shape:
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups
