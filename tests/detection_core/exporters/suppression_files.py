"""Files of post-processing alone: scores in, detections out."""

import functools

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from detection_core.exporters.tflite import Conversion, to_float32
from detection_core.exporters.tflite_post_process import PostProcessOptions

ANCHORS, CLASSES, ROWS = 200, 5, 20
OPTIONS = PostProcessOptions(
    max_detections=ROWS,
    max_classes_per_detection=2,
    use_regular_nms=True,
    nms_score_threshold=0.25,
    nms_iou_threshold=0.5,
    num_classes=CLASSES,
    y_scale=10.0,
    x_scale=10.0,
    h_scale=5.0,
    w_scale=5.0,
)
NAMES = ("count", "scores", "classes", "boxes")


@functools.cache
def boxes():
    """Anchors in a few clusters, some beyond the image, and codes: float32 [A, 4] twice."""
    random = np.random.default_rng(0)
    centres = random.uniform(-0.2, 1.2, (25, 2)).repeat(ANCHORS // 25, axis=0)
    centres += random.normal(0, 0.02, (ANCHORS, 2))
    anchors = np.concatenate([centres, random.uniform(0.05, 0.4, (ANCHORS, 2))], axis=1)
    return anchors.astype(np.float32), random.normal(0, 1, (ANCHORS, 4)).astype(np.float32)


def suppression_file(post_process, options, anchors=None, codes=None) -> bytes:
    """Convert one of the ways to suppress."""
    anchors, codes = boxes() if anchors is None else (anchors, codes)

    def serve(values):
        found = post_process(tf.constant(codes[np.newaxis]), values, tf.constant(anchors))
        return found.count, found.scores, found.classes, found.boxes

    spec = tf.TensorSpec([1, len(anchors), options.num_classes + 1], tf.float32, name="input")
    function = tf.function(serve, autograph=False).get_concrete_function(spec)
    return to_float32(Conversion(function=function))


def detections(content, values, threads=1, rows_each=1):
    """What a file gives, up to its count."""
    runner = Interpreter(model_content=content, num_threads=threads).get_signature_runner()
    found = {NAMES[i]: value[0] for i, (_, value) in enumerate(sorted(runner(input=values).items()))}
    count = int(found.pop("count")) * rows_each
    return {name: value[:count] for name, value in found.items()}
