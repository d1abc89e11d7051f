"""What an exported detector takes and gives: defined once, for the SavedModel and for TensorFlow Lite.

Names, dtypes, shapes and the classes counted from 1 are those of the Object Detection API's `image_tensor`
export, so that what reads such a model reads ours.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from detection_core.data.resize import Resizer
from detection_core.detectors.base import DetectionModel
from detection_core.structures import AnchorPredictions, Images

SAVED_MODEL_INPUT = "input_tensor"
TFLITE_INPUT = "input"
# Of the TensorFlow Lite signature; classes there count from 0.
TFLITE_OUTPUTS = {"output_0": "count", "output_1": "scores", "output_2": "classes", "output_3": "boxes"}
# Label maps number classes from 1.
FIRST_CLASS = 1


def serving_function(model: DetectionModel, resizer: Resizer) -> Any:
    """Make what a SavedModel serves: an image of any size in, detections out.

    Args:
        model: detector.
        resizer: turns an image into the network's input, as in training.

    Returns:
        A concrete function: `input_tensor` uint8 [1, H, W, 3], RGB -> as `serving_outputs` says.
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
        return serving_outputs(model, model.predict(images, training=False), images.true_sizes)

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


def serving_outputs(
    model: DetectionModel, predictions: AnchorPredictions, true_sizes: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Name a detector's outputs.

    Args:
        model: detector.
        predictions: of its `predict`, B images.
        true_sizes: int32 [B, 2].

    Returns:
        All float32: detection_boxes [B, D, 4] (ymin, xmin, ymax, xmax, normalised), detection_scores [B, D],
        detection_classes [B, D] (from 1), num_detections [B], detection_anchor_indices [B, D],
        detection_multiclass_scores [B, D, C + 1], raw_detection_boxes [B, A, 4] and raw_detection_scores
        [B, A, C + 1] (before suppression; background first, where the network has it: else C columns). A
        detector of keypoints also gives detection_keypoints [B, D, K, 2] (y, x, normalised). Rows past
        num_detections are 0, but for classes.
    """
    raw = model.raw_detections(predictions)
    raw_scores = raw.scores if model.has_background else raw.scores[:, :, 1:]
    detections, anchors = model.detect_with_anchors(predictions, true_sizes)
    filled = tf.sequence_mask(detections.count, tf.shape(anchors)[1])[..., tf.newaxis]
    named = {
        "detection_boxes": detections.boxes,
        "detection_scores": detections.scores,
        "detection_classes": detections.classes + FIRST_CLASS,
        "num_detections": detections.count,
        "detection_anchor_indices": anchors,
        "detection_multiclass_scores": tf.where(filled, tf.gather(raw_scores, anchors, batch_dims=1), 0.0),
        "raw_detection_boxes": raw.boxes,
        "raw_detection_scores": raw_scores,
    }
    if model.num_keypoints:
        keypoints = model.detected_keypoints(predictions, anchors, true_sizes)
        named["detection_keypoints"] = tf.where(filled[..., tf.newaxis], keypoints, 0.0)
    return {name: tf.cast(value, tf.float32) for name, value in named.items()}
