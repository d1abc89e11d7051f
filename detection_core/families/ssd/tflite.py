"""Export one-stage detectors to TensorFlow Lite."""

import functools
from typing import Any

import tensorflow as tf

from detection_core.artifacts.tflite_metadata import BoxDecoding
from detection_core.config.model_fields import foreground_classes
from detection_core.detectors.family import TFLiteOutputOptions
from detection_core.errors import ExportError
from detection_core.exporters.signatures import TFLITE_INPUT
from detection_core.exporters.tflite_forms import decoding_of, head_options, one_stage_function
from detection_core.families.ssd.check import box_coder_problems
from detection_core.families.ssd.model import SsdModel
from detection_core.ops.post_process_options import PostProcessOptions
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig


def post_process_options(config: TrainEvalPipelineConfig, outputs: TFLiteOutputOptions) -> PostProcessOptions:
    """Read the operator's attributes from a config.

    Classes per box are limited to the number of classes.

    Raises:
        ExportError: when the operator does not support the config's box coder or suppression.
    """
    ssd = config.model.ssd
    for problem in box_coder_problems(ssd, "model.ssd.box_coder"):
        raise ExportError(problem.message, where=problem.path)
    scales = ssd.box_coder.faster_rcnn_box_coder
    nms = ssd.post_processing.batch_non_max_suppression
    return PostProcessOptions(
        max_detections=outputs.max_detections,
        max_classes_per_detection=min(outputs.classes_per_detection, foreground_classes(ssd)),
        detections_per_class=nms.max_detections_per_class,
        use_regular_nms=outputs.use_regular_nms,
        nms_score_threshold=nms.score_threshold,
        nms_iou_threshold=nms.iou_threshold,
        num_classes=foreground_classes(ssd),
        y_scale=scales.y_scale,
        x_scale=scales.x_scale,
        h_scale=scales.height_scale,
        w_scale=scales.width_scale,
    )


def tflite_function(
    model: SsdModel, options: PostProcessOptions, *, integer: bool, form: str = "post_process"
) -> Any:
    """Create the function to convert, of `input` float32 [1, H, W, 3]; see `one_stage_function`."""
    spec = tf.TensorSpec([1, *model.input_size, model.channels], tf.float32, name=TFLITE_INPUT)
    heads = head_options(model, options, integer=integer)
    run = functools.partial(model.network, training=False)
    return one_stage_function(run, model.preprocess, heads, spec, form=form)


def export_function(detector: Any, config: Any, outputs: TFLiteOutputOptions, integer: bool) -> Any:
    """Create `tflite_function` for a config; see `TFLiteExport.function`."""
    options = post_process_options(config, outputs)
    return tflite_function(detector, options, integer=integer, form=outputs.form)


def box_decoding(model: SsdModel, config: Any, outputs: TFLiteOutputOptions) -> BoxDecoding:
    """Return how to decode the outputs of a file without post-processing."""
    return decoding_of(head_options(model, post_process_options(config, outputs), integer=False))
