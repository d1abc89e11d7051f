"""A detector as a graph that converters to other runtimes read: pixels of one image, plain operations.

The SavedModel for servers resizes, and suppresses by CombinedNonMaxSuppression or loops, which OpenVINO, Core
ML and others do not have.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from detection_core.detectors.family import Normalisation
from detection_core.structures import FIRST_CLASS

PORTABLE_INPUT = "images"
# Of a file's function with post-processing, in its order.
DETECTIONS = ("num_detections", "detection_scores", "detection_classes", "detection_boxes")


def portable_function(function: Any, normalisation: Normalisation) -> Any:
    """Make a function of pixels of what a family's `tflite.function` gives.

    Args:
        function: of the form `plain_nms` or `headless`, of a float network.
        normalisation: with which (pixel - mean) / std is what it takes.

    Returns:
        A concrete function: `images` float32 [1, H, W, 3], RGB pixels 0..255 -> `detection_boxes` float32
        [1, D, 4] (ymin, xmin, ymax, xmax, normalised, not clipped), `detection_scores` [1, D], falling,
        `detection_classes` [1, D], from 1, and `num_detections` [1]; or `location` and `score` as they are.
    """
    mean, std = (tf.constant(each, tf.float32) for each in normalisation)

    def serve(pixels: tf.Tensor) -> dict[str, tf.Tensor]:
        found = function((pixels - mean) / std)
        if isinstance(found, dict):
            return {name: tf.identity(value) for name, value in found.items()}
        outputs = dict(zip(DETECTIONS, found, strict=True))
        return outputs | {"detection_classes": outputs["detection_classes"] + float(FIRST_CLASS)}

    spec = tf.TensorSpec(function.inputs[0].shape, tf.float32, name=PORTABLE_INPUT)
    return tf.function(serve, autograph=False).get_concrete_function(spec)
