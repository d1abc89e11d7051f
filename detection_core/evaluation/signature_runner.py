"""Run a detector that is a function of one image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.evaluation.checked_detections import checked_detections
from detection_core.structures import FIRST_CLASS, Instances

OUTPUTS = ("detection_boxes", "detection_scores", "detection_classes", "num_detections")
_OPTIONAL = ("detection_masks", "detection_keypoints")


class Runner(Protocol):
    """A detector that takes one image at a time."""

    @property
    def path(self) -> str:
        """Source of the detector."""
        ...

    def __call__(self, image: np.ndarray, source_id: str = "") -> Instances:
        """Detect objects.

        Args:
            image: uint8 [H, W, 3], RGB, of any size.
            source_id: id of the detections.

        Raises:
            ModelError: if the detector returns NaN or infinity.
        """
        ...


class SignatureRunner:
    """A function with the inputs and outputs of the Object Detection API's `image_tensor` signature."""

    def __init__(self, function: Callable[[tf.Tensor], Mapping[str, Any]], path: str) -> None:
        """Take the function.

        Args:
            function: one image, uint8 [1, H, W, 3] -> `OUTPUTS`; optionally also detection_masks and
                detection_keypoints.
            path: its source, for errors.
        """
        self.path = path
        self._function = function

    def __call__(self, image: np.ndarray, source_id: str = "") -> Instances:
        """Detect objects; see `Runner`."""
        try:
            given = self._function(tf.constant(image[np.newaxis]))
            found = {name: np.asarray(given[name])[0] for name in (*OUTPUTS, *_OPTIONAL) if name in given}
        except (tf.errors.OpError, ValueError, IndexError) as error:
            raise ModelError(
                f"expected a detector of one image, found one that fails on image {source_id!r}"
                f" ({first_line(error)}); export the model again",
                where=self.path,
            ) from error
        count, rows = found["num_detections"], len(found["detection_scores"])
        if not np.isfinite(count) or not 0 <= count <= rows:
            raise ModelError(
                f"expected 0 to {rows} detections in num_detections for image {source_id!r}, found {count};"
                " export the model again",
                where=self.path,
            )
        # Its classes are numbered as in the label map; a TensorFlow Lite file's start at 0.
        found["detection_classes"] = found["detection_classes"] - FIRST_CLASS
        outputs = {name.removeprefix("detection_"): values for name, values in found.items()}
        size = (image.shape[0], image.shape[1])
        return checked_detections(outputs, int(count), size, source_id=source_id, where=self.path)


def first_line(error: Exception) -> str:
    """Return the first line of a TensorFlow error; the rest describes its graph."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
