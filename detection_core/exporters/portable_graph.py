"""Export a detector as a graph for converters to other runtimes: one image, plain operations.

The serving SavedModel contains resizing, and CombinedNonMaxSuppression or loops, which OpenVINO, Core ML and
others do not support.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from detection_core.detectors.family import Normalisation
from detection_core.structures import FIRST_CLASS

PORTABLE_INPUT = "images"
# Outputs of a file's function with post-processing, in order.
DETECTIONS = ("num_detections", "detection_scores", "detection_classes", "detection_boxes")


def portable_function(function: Any, normalisation: Normalisation) -> Any:
    """Make a function of pixels from a family's `tflite.function`.

    Args:
        function: of the form `plain_nms` or `headless`, of a float network.
        normalisation: (mean, std); the function takes (pixel - mean) / std.

    Returns:
        A concrete function of `images` float32 [1, H, W, 3], RGB pixels 0..255. It returns `detection_boxes`
        float32 [1, D, 4] (ymin, xmin, ymax, xmax, normalised, not clipped), `detection_scores` [1, D],
        descending, `detection_classes` [1, D], from 1, and `num_detections` [1]. For `headless` it returns
        `location` and `score` unchanged.
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
