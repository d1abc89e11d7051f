"""EfficientDet as TensorFlow Lite files."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.artifacts.tflite_metadata import BoxDecoding
from detection_core.detectors.family import TFLiteOutputOptions
from detection_core.exporters.tflite_forms import HeadOptions, Outputs, heads_function
from detection_core.exporters.tflite_input import network_input
from detection_core.exporters.tflite_post_process import PostProcessOptions, centred, normalisation_of
from detection_core.families.efficientdet.build import HARD_THRESHOLD
from detection_core.families.efficientdet.model import EfficientDetModel
from detection_core.protos.efficientdet_pb2 import EfficientDet


def post_process_options(message: EfficientDet, outputs: TFLiteOutputOptions) -> PostProcessOptions:
    """Read the operation's attributes from a config.

    Args:
        message: of the detector; the operation suppresses hard whatever the method.
        outputs: what the file gives; no more classes of a box than there are.
    """
    nms = message.nms_configs
    return PostProcessOptions(
        max_detections=outputs.max_detections,
        max_classes_per_detection=min(outputs.classes_per_detection, message.num_classes),
        detections_per_class=outputs.max_detections,
        use_regular_nms=outputs.use_regular_nms,
        nms_score_threshold=nms.score_thresh or -float("inf"),
        nms_iou_threshold=nms.iou_thresh or HARD_THRESHOLD,
        num_classes=message.num_classes,
        y_scale=1.0,
        x_scale=1.0,
        h_scale=1.0,
        w_scale=1.0,
    )


INPUT = "images"
"""Of the signature, as in files of google/automl and of Model Maker, whose scripts name it."""


def tflite_function(
    model: EfficientDetModel, options: PostProcessOptions, *, integer: bool, form: str = "post_process"
) -> Any:
    """Make what TensorFlow Lite runs: one image in, post-processed detections out.

    Args:
        model: detector.
        options: of the post-processing operation.
        integer: the network's outputs are going to be integers.
        form: of `allowed_values.TFLITE_FORMS`.

    Returns:
        A concrete function: `images` float32 [1, H, W, 3], normalised as `tflite_input.file_normalisation`
        says -> count, scores, classes, boxes, or what the form gives.
    """
    normalisation = normalisation_of(model.preprocess)

    heads = HeadOptions(
        post_process=options,
        anchors=centred(tf.constant(np.asarray(model.anchors))),
        to_scores=tf.sigmoid,
        sigmoid=True,
        integer=integer,
    )
    give = heads_function(form, heads)

    def serve(pixels: tf.Tensor) -> Outputs:
        found = model.run(network_input(pixels, normalisation, integer=integer), training=False)
        return give(found.box_codes, found.class_logits)

    spec = tf.TensorSpec([1, *model.parts.input_size, 3], tf.float32, name=INPUT)
    return tf.function(serve, autograph=False).get_concrete_function(spec)


def box_decoding(model: EfficientDetModel, options: PostProcessOptions) -> BoxDecoding:
    """Return how the outputs of a file without post-processing are decoded."""
    return BoxDecoding(
        anchors=np.asarray(centred(tf.constant(np.asarray(model.anchors)))),
        scales=options.scales,
        num_classes=options.num_classes,
        sigmoid=True,
    )
