"""Running a detector as its users will: a SavedModel's serving signature or a TensorFlow Lite file."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from detection_core import files
from detection_core.detector_layout import serving_dir
from detection_core.errors import ModelError
from detection_core.evaluation.tflite_runner import TFLiteRunner
from detection_core.structures import ImageDetections

SIGNATURE = "serving_default"
OUTPUTS = ("detection_boxes", "detection_scores", "detection_classes", "num_detections")
# Classes of a SavedModel are numbered as in the label map; classes of a TensorFlow Lite file from 0.
FIRST_CLASS = 1


class Runner(Protocol):
    """A detector that takes one image at a time."""

    @property
    def path(self) -> str:
        """Where it was loaded from."""
        ...

    def __call__(self, image: np.ndarray, source_id: str = "") -> ImageDetections:
        """Detect objects.

        Args:
            image: uint8 [H, W, 3], RGB, of any size.
            source_id: id that the detections carry.

        Raises:
            ModelError: when the detector gives NaN or infinity.
        """
        ...


class SavedModelRunner:
    """A SavedModel with the Object Detection API's `image_tensor` signature."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            # The loaded object must live as long as its signature.
            self._model = tf.saved_model.load(serving_dir(path))
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise ModelError(
                f"expected a SavedModel, found files that cannot be loaded ({str(error).splitlines()[0]});"
                " export the model again",
                where=path,
            ) from error
        self._signature = _serving_signature(self._model, path)
        self._input = next(iter(self._signature.structured_input_signature[1]))

    def __call__(self, image: np.ndarray, source_id: str = "") -> ImageDetections:
        """Detect objects; see `Runner`."""
        outputs = self._signature(**{self._input: tf.constant(image[np.newaxis])})
        boxes, scores, classes, count = (np.asarray(outputs[name])[0] for name in OUTPUTS)
        return checked_detections(
            boxes, scores, classes - FIRST_CLASS, int(count), source_id=source_id, where=self.path
        )


def _serving_signature(model: tf.Module, path: str) -> Any:
    signature = model.signatures.get(SIGNATURE) if hasattr(model, "signatures") else None
    found = sorted(signature.structured_outputs) if signature else []
    inputs = signature.structured_input_signature[1] if signature else {}
    if [s.dtype for s in inputs.values()] != [tf.uint8] or not set(OUTPUTS) <= set(found):
        raise ModelError(
            f"expected a signature {SIGNATURE!r} with one uint8 image as input and the outputs"
            f" {', '.join(OUTPUTS)}, found inputs {list(inputs.values())} and outputs {found};"
            " export the model as image_tensor",
            where=path,
        )
    return signature


def checked_detections(
    boxes: np.ndarray,
    scores: np.ndarray,
    classes: np.ndarray,
    count: int,
    *,
    source_id: str,
    where: str,
) -> ImageDetections:
    """Take the padding off a detector's outputs and refuse what is not a number.

    Args:
        boxes: float32 [D, 4].
        scores: float32 [D].
        classes: float32 [D], whole numbers from 0.
        count: how many rows are detections.
        source_id: of the image.
        where: the model, for errors.

    Raises:
        ModelError: for NaN or infinity among the detections.
    """
    boxes, scores, classes = boxes[:count], scores[:count], classes[:count]
    for name, values in (("boxes", boxes), ("scores", scores), ("classes", classes)):
        if not np.isfinite(values).all():
            raise ModelError(
                f"expected finite {name} for image {source_id!r}, found {values[~np.isfinite(values)][0]};"
                " the training diverged or the conversion broke the model: look at its loss, lower the"
                " learning rate or clip gradients",
                where=where,
            )
    order = np.argsort(-scores, kind="stable")
    return ImageDetections(
        source_id=source_id,
        boxes=boxes[order].astype(np.float32),
        scores=scores[order].astype(np.float32),
        classes=np.rint(classes[order]).astype(np.int32),
    )


def _load_tflite(path: str, threads: int) -> Runner:
    return TFLiteRunner(path, check=checked_detections, threads=threads)


_LOADERS: dict[str, Callable[[str, int], Runner]] = {
    ".tflite": _load_tflite,
    "": lambda path, _: SavedModelRunner(path),
}


def load_runner(path: str, *, threads: int = 0) -> Runner:
    """Load a detector for evaluation or prediction.

    Args:
        path: a detector folder, a SavedModel's folder, a published version, or a .tflite file.
        threads: of the TensorFlow Lite interpreter; 0: one a core. TensorFlow chooses its own.

    Raises:
        ModelError: when the model cannot be loaded or has other inputs and outputs than a detector's.
        ContractError: when there is no SavedModel in the folder.
    """
    if not files.exists(path):
        raise ModelError(
            "expected a detector folder or a .tflite file, found nothing there; check the path", where=path
        )
    kind = os.path.splitext(path)[1].lower()
    load = _LOADERS[kind if kind in _LOADERS else ""]
    return load(path, threads or os.cpu_count() or 1)
