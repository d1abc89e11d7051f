"""Running a detector as its users will: a SavedModel's serving signature or a TensorFlow Lite file."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from detection_core.artifacts.detector import EXTRA, MODEL_INFO, serving_dir
from detection_core.artifacts.ensemble import find_ensemble, members
from detection_core.artifacts.graph_operations import check_graph
from detection_core.errors import ModelError
from detection_core.evaluation.ensemble_runner import EnsembleRunner, check_same_classes
from detection_core.evaluation.signature_runner import OUTPUTS, Runner, SignatureRunner, first_line
from detection_core.evaluation.tflite_runner import TFLiteRunner
from detection_core.storage import files
from detection_core.storage.local_copy import local_copy

_logger = logging.getLogger(__name__)

SIGNATURE = "serving_default"
OUTPUT_SHAPES: dict[str, list[int | None]] = {
    "detection_boxes": [1, None, 4],
    "detection_scores": [1, None],
    "detection_classes": [1, None],
    "num_detections": [1],
}
# What TensorFlow raises for damaged files of a SavedModel, beside its own errors.
_UNLOADABLE = (OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError, tf.errors.OpError)


class SavedModelRunner(SignatureRunner):
    """A SavedModel with the Object Detection API's `image_tensor` signature."""

    def __init__(self, path: str, *, trust: bool = False) -> None:
        """Load the model.

        Args:
            path: its folder, or a detector's.
            trust: run it even if its graph does more than compute.

        Raises:
            ModelError: when it is none, is damaged, does more than compute, or is no detector.
            ContractError: when there is no SavedModel in the folder.
        """
        directory = serving_dir(path)
        check_graph(directory, trust=trust)
        if not files.exists(files.join(directory, EXTRA, MODEL_INFO)):
            _logger.warning("%s was not written by detflow; it is run as it is", directory)
        try:
            with local_copy(directory) as here:
                # The loaded object must live as long as its signature.
                self._model = tf.saved_model.load(here)
        except _UNLOADABLE as error:
            raise ModelError(
                f"expected a SavedModel, found files that cannot be loaded ({first_line(error)});"
                " export the model again",
                where=path,
            ) from error
        signature = _serving_signature(self._model, path)
        name = next(iter(signature.structured_input_signature[1]))
        super().__init__(lambda image: signature(**{name: image}), path)


def _serving_signature(model: tf.Module, path: str) -> Any:
    signature = model.signatures.get(SIGNATURE) if hasattr(model, "signatures") else None
    outputs = signature.structured_outputs if signature else {}
    inputs = signature.structured_input_signature[1] if signature else {}
    if [s.dtype for s in inputs.values()] != [tf.uint8] or not set(OUTPUTS) <= set(outputs):
        raise ModelError(
            f"expected a signature {SIGNATURE!r} with one uint8 image as input and the outputs"
            f" {', '.join(OUTPUTS)}, found inputs {list(inputs.values())} and outputs {sorted(outputs)};"
            " export the model as image_tensor",
            where=path,
        )
    for name, shape in OUTPUT_SHAPES.items():
        found = outputs[name]
        number = found.dtype.is_floating or found.dtype.is_integer
        if not number or not tf.TensorShape(shape).is_compatible_with(found.shape):
            raise ModelError(
                f"expected numbers of the shape {shape} as {name}, found {found.dtype.name} of"
                f" {found.shape}; export the model as image_tensor",
                where=path,
            )
    return signature


def _load_tflite(path: str, threads: int, _: bool) -> Runner:
    return TFLiteRunner(path, threads=threads)


_LOADERS: dict[str, Callable[[str, int, bool], Runner]] = {
    ".tflite": _load_tflite,
    "": lambda path, _, trust: SavedModelRunner(path, trust=trust),
}


def load_runner(path: str, *, threads: int = 0, trust: bool = False) -> Runner:
    """Load a detector for evaluation or prediction.

    Args:
        path: a detector folder, a SavedModel's folder, a published version, a .tflite file, or the folder of
            an ensemble.
        threads: of the TensorFlow Lite interpreter; 0: one a core. TensorFlow chooses its own.
        trust: run a SavedModel even if its graph does more than compute, such as reading files.

    Raises:
        ModelError: when the model cannot be loaded, does more than compute, or has other inputs and outputs
            than a detector's.
        ContractError: when there is no SavedModel in the folder.
    """
    if not files.exists(path):
        raise ModelError(
            "expected a detector folder or a .tflite file, found nothing there; check the path", where=path
        )
    ensemble = find_ensemble(path)
    if ensemble is not None:
        check_same_classes(members(path))
        runners = [load_runner(member, threads=threads, trust=trust) for member in members(path)]
        return EnsembleRunner(path, runners, ensemble.iou_threshold)
    kind = os.path.splitext(path)[1].lower()
    load = _LOADERS[kind if kind in _LOADERS else ""]
    return load(path, threads or os.cpu_count() or 1, trust)
