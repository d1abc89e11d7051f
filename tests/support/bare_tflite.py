"""TensorFlow Lite files of next to nothing, for what is written beside a network."""

import functools
from pathlib import Path

import flatbuffers
import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

from detection_core.artifacts.tflite_metadata import BoxDecoding, TFLiteDescription
from detection_core.ops.post_process_options import PostProcessOptions
from tests.support.store import stored

ANCHORS = np.random.default_rng(0).uniform(0, 1, (7, 4)).astype(np.float32)
LIMITS = {"max_detections": 100, "nms_score_threshold": 0.0, "nms_iou_threshold": 0.5, "num_classes": 3}
DECODING = BoxDecoding(
    anchors=ANCHORS.tolist(),
    sigmoid=True,
    post_process=PostProcessOptions(y_scale=10.0, x_scale=11.0, h_scale=5.0, w_scale=6.0, **LIMITS),
)
DESCRIPTION = TFLiteDescription(
    name="heads", mean=(0.0,), std=(1.0,), labels=("a", "b", "c"), score_threshold=0.25
)


@functools.cache
def bare_file() -> bytes:
    """Return a file that adds 1 to a number."""
    return (stored(_convert) / "m.tflite").read_bytes()


def _convert(folder: Path) -> None:
    import tensorflow as tf

    function = tf.function(lambda x: x + 1.0).get_concrete_function(tf.TensorSpec([1], tf.float32))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module())
    (folder / "m.tflite").write_bytes(converter.convert())


@functools.cache
def heads() -> bytes:
    """Return a file without operations, with the outputs of a headless file in another order."""
    model, graph, signature = schema.ModelT(), schema.SubGraphT(), schema.SignatureDefT()
    model.version, model.buffers, graph.tensors, graph.operators = 3, [schema.BufferT()], [], []
    for name, shape in (("input", [1, 4, 4, 3]), ("score", [1, 7, 3]), ("location", [1, 7, 4])):
        tensor = schema.TensorT()
        tensor.name, tensor.shape = name, shape
        graph.tensors.append(tensor)
    graph.inputs, graph.outputs = [0], [1, 2]
    signature.signatureKey, signature.inputs, signature.outputs = "serving_default", [], []
    for index, name in ((1, "score"), (2, "location")):
        entry = schema.TensorMapT()
        entry.name, entry.tensorIndex = name, index
        signature.outputs.append(entry)
    model.subgraphs, model.signatureDefs, model.operatorCodes = [graph], [signature], []
    return packed(model)


def packed(model: schema.ModelT) -> bytes:
    """Return the file of a model."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
