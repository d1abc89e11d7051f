"""What an exported detector takes and gives, and the SavedModel that does so.

Names, dtypes, shapes and the classes counted from 1 are those of the Object Detection API's `image_tensor`
export, so that what reads such a model reads ours.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from detection_core.data.resize import Resizer
from detection_core.detectors.base import Detector
from detection_core.structures import Images

SAVED_MODEL_INPUT = "input_tensor"
TFLITE_INPUT = "input"
# Of the TensorFlow Lite signature; classes there count from 0.
TFLITE_OUTPUTS = {"output_0": "count", "output_1": "scores", "output_2": "classes", "output_3": "boxes"}


def write_saved_model(model: Detector, resizer: Resizer, directory: str) -> None:
    """Write `directory/saved_model.pb` with the image_tensor serving signature.

    Args:
        model: detector; its networks are exported in inference form.
        resizer: turns an image of any size into the network's input, as in training.
        directory: folder to fill.
    """
    save_signature(serving_function(model, resizer), directory)


def serving_function(model: Detector, resizer: Resizer) -> Any:
    """Make what a SavedModel serves: an image of any size in, detections out.

    Args:
        model: detector.
        resizer: turns an image into the network's input, as in training.

    Returns:
        A concrete function: `input_tensor` uint8 [1, H, W, 3], RGB -> what `Detector.serving_outputs` gives.
    """

    def serve(input_tensor: tf.Tensor) -> dict[str, tf.Tensor]:
        original = tf.shape(input_tensor)[1:3]
        resized = resizer(input_tensor[0], tf.zeros([0, 0, 0], tf.uint8))
        images = Images(
            pixels=resized.image[tf.newaxis],
            true_sizes=resized.true_size[tf.newaxis],
            original_sizes=original[tf.newaxis],
            source_ids=tf.constant([""]),
        )
        return model.serving_outputs(images)

    spec = tf.TensorSpec([1, None, None, 3], tf.uint8, name=SAVED_MODEL_INPUT)
    return tf.function(serve).get_concrete_function(spec)


def save_signature(function: Any, directory: str) -> None:
    """Write a SavedModel with one signature, `serving_default`, and the variables that it reads.

    The variables alone are saved, not the layers around them: tf_keras would trace every layer several times
    over, which takes a minute for a detector and serves no reader of the signature.

    Args:
        function: concrete function.
        directory: folder to fill.
    """
    module = tf.Module(name="served")
    module.read_variables = list(function.graph.variables)
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, directory, {"serving_default": function}, options)
