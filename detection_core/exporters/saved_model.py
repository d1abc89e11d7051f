"""Writing a detector as a SavedModel."""

from __future__ import annotations

from detection_core.data.resize import Resizer
from detection_core.detectors.base import DetectionModel
from detection_core.exporters.signatures import save_signature, serving_function


def write_saved_model(model: DetectionModel, resizer: Resizer, directory: str) -> None:
    """Write `directory/saved_model.pb` with the image_tensor serving signature.

    Args:
        model: detector; its network is exported in inference form.
        resizer: turns an image of any size into the network's input, as in training.
        directory: folder to fill.
    """
    save_signature(serving_function(model, resizer), directory)
