"""Export EfficientDet to TensorFlow Lite."""

from typing import Any

import tensorflow as tf

from detection_core.artifacts.tflite_metadata import BoxDecoding
from detection_core.detectors.family import TFLiteOutputOptions
from detection_core.exporters.tflite_forms import decoding_of, head_options, one_stage_function
from detection_core.families.efficientdet.build import HARD_THRESHOLD
from detection_core.families.efficientdet.model import EfficientDetModel
from detection_core.ops.post_process_options import PostProcessOptions
from detection_core.protos.efficientdet_pb2 import EfficientDet


def post_process_options(message: EfficientDet, outputs: TFLiteOutputOptions) -> PostProcessOptions:
    """Read the operator's attributes from a config.

    The operator always uses hard suppression. Classes per box are limited to the number of classes.
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
"""Input name of the signature, as in google/automl's and Model Maker's files, whose scripts use it."""


def tflite_function(
    model: EfficientDetModel, options: PostProcessOptions, *, integer: bool, form: str = "post_process"
) -> Any:
    """Create the function to convert, of `images` float32 [1, H, W, 3]; see `one_stage_function`."""

    def run(image: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        found = model.run(image, training=False)
        return found.box_codes, found.class_logits

    spec = tf.TensorSpec([1, *model.parts.input_size, model.channels], tf.float32, name=INPUT)
    heads = head_options(model, options, integer=integer)
    return one_stage_function(run, model.preprocess, heads, spec, form=form)


def export_function(detector: Any, config: Any, outputs: TFLiteOutputOptions, integer: bool) -> Any:
    """Create `tflite_function` for a config; see `TFLiteExport.function`."""
    options = post_process_options(config.model.efficientdet, outputs)
    return tflite_function(detector, options, integer=integer, form=outputs.form)


def box_decoding(model: EfficientDetModel, config: Any, outputs: TFLiteOutputOptions) -> BoxDecoding:
    """Return how to decode the outputs of a file without post-processing."""
    options = post_process_options(config.model.efficientdet, outputs)
    return decoding_of(head_options(model, options, integer=False))
