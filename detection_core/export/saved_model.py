"""Writing a detector as a SavedModel."""

from __future__ import annotations

import tensorflow as tf

from detection_core.data.resize import Resizer
from detection_core.export.signatures import ServingModule
from detection_core.models.base import DetectionModel


def write_saved_model(model: DetectionModel, resizer: Resizer, directory: str) -> None:
    """Write `directory/saved_model.pb` with the image_tensor serving signature.

    Args:
        model: detector; its network is exported in inference form, in float32.
        resizer: turns an image of any size into the network's input, as in training.
        directory: folder to fill.
    """
    module = ServingModule(model, resizer)
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, directory, {"serving_default": module.serve}, options)
