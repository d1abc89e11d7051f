"""The signatures of google/automl's exported EfficientDets, for any detector with fixed levels.

`serving_default` returns boxes in image pixels. `predict` returns the raw outputs of the class and box nets,
level by level. `serving_base64` takes image files, which TensorFlow Serving's REST interface accepts as
{"b64": ...}.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from detection_core.data.resize import Resizer
from detection_core.detectors.base import Detector
from detection_core.detectors.family import Family
from detection_core.errors import ExportError
from detection_core.exporters.signatures import SERVING_DEFAULT, images_function
from detection_core.structures import FIRST_CLASS, Images

IMAGES, IMAGE_FILES = "images", "image_files"
SERVING_BASE64, PREDICT = "serving_base64", "predict"
# Outputs of serving_default.
BOXES, SCORES, CLASSES, COUNT = (f"output_{i}" for i in range(4))


def automl_functions(
    model: Detector, family: Family, resizer: Resizer, batch_size: int | None
) -> dict[str, Any]:
    """Make the signatures.

    Args:
        model: detector.
        family: the detector's family.
        resizer: turns an image into the network's input, as in training.
        batch_size: fixed batch size of requests; None: any.

    Returns:
        Name of a signature to its concrete function. Inputs: `serving_default` takes `images` uint8 [B, H, W,
            3], `serving_base64` takes `image_files` string [B]. Both return output_0 boxes float32 [B, D, 4]
            (ymin, xmin, ymax, xmax in image pixels), output_1 scores float32 [B, D], output_2 classes float32
            [B, D] (from 1), and output_3 the number of detections, int32 [B]. `predict` takes `images`
            float32 [B, h, w, 3], normalised, of the network's size. It returns output_0, ...: class outputs
            of each level [B, h, w, K], then box outputs.

    Raises:
        ExportError: if the detector has no levels of fixed size.
    """

    def detect(images: Images) -> dict[str, tf.Tensor]:
        found = model.detect(images)
        sides = tf.cast(tf.tile(images.original_sizes, [1, 2]), tf.float32)[:, tf.newaxis]
        return {
            BOXES: found.boxes * sides,
            SCORES: found.scores,
            CLASSES: tf.cast(found.classes + FIRST_CLASS, tf.float32),
            COUNT: found.count,
        }

    def of(input_type: str, name: str) -> Any:
        return images_function(detect, resizer, input_type=input_type, batch_size=batch_size, input_name=name)

    return {
        SERVING_DEFAULT: of("image_tensor", IMAGES),
        SERVING_BASE64: of("encoded_image_string_tensor", IMAGE_FILES),
        PREDICT: head_function(model, family, batch_size),
    }


def head_function(model: Detector, family: Family, batch_size: int | None) -> Any:
    """Make a function of the class and box nets' raw outputs; see `automl_functions`.

    Raises:
        ExportError: if the detector has no levels of fixed size.
    """
    level_outputs, size = family.require_level_outputs(), model.input_shape.size
    if size is None:
        raise ExportError("expected a detector whose images have one size, found one with bounds only")

    def predict(images: tf.Tensor) -> dict[str, tf.Tensor]:
        classes, boxes = level_outputs(model, images)
        return {f"output_{i}": output for i, output in enumerate([*classes, *boxes])}

    spec = tf.TensorSpec([batch_size, *size, 3], tf.float32, name=IMAGES)
    return tf.function(predict, autograph=False).get_concrete_function(spec)
