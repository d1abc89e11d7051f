"""Export CenterNets to TensorFlow Lite: raw pixels in, the four outputs of other detectors out.

The file suppresses nothing, so that it needs no custom operation and runs wherever TensorFlow Lite does.
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.detectors.family import Normalisation, TFLiteOutputOptions
from detection_core.errors import ExportError
from detection_core.exporters.signatures import TFLITE_INPUT
from detection_core.exporters.tflite_forms import PIXELS
from detection_core.exporters.tflite_post_process import kept_in_float
from detection_core.families.center_net.model import CenterNetModel
from detection_core.families.center_net.network import by_head

HEADLESS = "headless"


class _IntegerFile(CenterNetModel):
    """A detector whose scores stay float between an integer network and the search for peaks."""

    def class_scores(self, logits: tf.Tensor) -> tf.Tensor:
        return kept_in_float(super().class_scores(kept_in_float(logits)))


def export_function(
    detector: CenterNetModel, config: Any, outputs: TFLiteOutputOptions, integer: bool
) -> Any:
    """Create the function to convert; see `TFLiteExport.function`.

    Its input `input` is float32 [1, H, W, 3], pixels 0..255. It returns count, scores, classes and boxes. For
    one class with one keypoint task, keypoint scores [1, D, K] and keypoints [1, D, K, 2] come before them.
    The options of suppression have no effect.

    Raises:
        ExportError: for a file of raw heads, which have no anchors to be decoded with.
    """
    if outputs.form == HEADLESS:
        raise ExportError(
            "expected post_process, as heatmaps have no anchors that a consumer decodes, found headless;"
            " use it",
            where="form",
        )
    most = min(outputs.max_detections, detector.parts.max_detections)
    posed = detector.num_classes == 1 and len(detector.parts.keypoints) == 1
    tasks = detector.parts.keypoints if posed else ()
    limited = dataclasses.replace(detector.parts, max_detections=most, keypoints=tasks)
    model = (_IntegerFile if integer else CenterNetModel)(detector.network, limited)
    kernel, bias = _affine(model)

    def serve(pixels: tf.Tensor) -> tuple[tf.Tensor, ...]:
        heads = model.network(_network_input(pixels, kernel, bias, integer=integer), training=False)
        size = tf.constant([model.parts.input_size])
        found, objects = model.finished(model.find(by_head(model.parts.heads, heads), size), size)
        count, classes = (tf.cast(each, tf.float32) for each in (found.count, found.classes))
        whole = (count, found.scores, classes, found.boxes)
        return (objects.keypoint_scores, found.keypoints, *whole) if posed else whole

    spec = tf.TensorSpec([1, *model.parts.input_size, model.channels], tf.float32, name=TFLITE_INPUT)
    return tf.function(serve, autograph=False).get_concrete_function(spec)


def input_normalisation(detector: CenterNetModel) -> Normalisation:
    """Return that a file takes pixels as they are."""
    return PIXELS


def _affine(model: CenterNetModel) -> tuple[np.ndarray, np.ndarray]:
    """Return the conversion of pixels as a 1x1 convolution: its kernel, [1, 1, C, C], and bias, [C]."""
    channels = model.channels
    bias = model.preprocess(tf.zeros([1, 1, 1, channels])).numpy().ravel()
    colours = tf.constant(255.0 * np.eye(channels, dtype=np.float32).reshape(channels, 1, 1, channels))
    rows = (model.preprocess(colours).numpy().reshape(channels, channels) - bias) / np.float32(255.0)
    return rows[np.newaxis, np.newaxis], bias


def _network_input(pixels: tf.Tensor, kernel: np.ndarray, bias: np.ndarray, *, integer: bool) -> tf.Tensor:
    """Convert pixels; channels that change places make the subtraction a convolution."""
    weights = tf.constant(kernel)
    if integer:
        pixels = tf.quantization.fake_quant_with_min_max_args(pixels, 0.0, 255.0)
        largest = np.abs(kernel).max(axis=(0, 1, 2))
        weights = tf.quantization.fake_quant_with_min_max_vars_per_channel(
            weights, -largest, largest, narrow_range=True
        )
    return tf.nn.bias_add(tf.nn.conv2d(pixels, weights, 1, "VALID"), bias)
