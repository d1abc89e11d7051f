"""Write good and hostile models with TensorFlow, in a child process: a process that ran it must not fork.

python -m tests.hostile.seed_models FOLDER
"""

import math
import os
import sys
from pathlib import Path

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

_MARK = "PWNED"  # in the working directory


class _Detector(tf.Module):
    """Finds the same two boxes in every image."""

    def __init__(self, change):
        super().__init__()
        self.scale, self._change = tf.Variable(1.0), change

    @tf.function(input_signature=[tf.TensorSpec([1, None, None, 3], tf.uint8, name="input_tensor")])
    def serve(self, input_tensor):
        boxes = tf.constant([[[0.1, 0.1, 0.5, 0.5], [0.2, 0.2, 0.6, 0.6]]]) * self.scale
        found = {
            "detection_boxes": boxes,
            "detection_scores": tf.constant([[0.9, 0.8]]),
            "detection_classes": tf.constant([[1.0, 1.0]]),
            "num_detections": tf.constant([2.0]),
        }
        return self._change(found)


class _Resource(tf.saved_model.experimental.TrackableResource):
    """Writes a file when it is loaded."""

    def _create_resource(self):
        return tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name="table")

    def _initialize(self):
        tf.io.write_file(_MARK, "x")


def _written(found):
    with tf.control_dependencies([tf.io.write_file(_MARK, "x")]):
        return {**found, "detection_boxes": tf.identity(found["detection_boxes"])}


def _without(name):
    return lambda found: {key: value for key, value in found.items() if key != name}


def _other(name, value):
    return lambda found: {**found, name: value()}


_MODELS = {
    "good": lambda found: found,
    "writes": _written,
    "reads": _other("detection_scores", lambda: _length("/etc/passwd") * tf.ones([1, 2])),
    "no_boxes": _without("detection_boxes"),
    "boxes_shape": _other("detection_boxes", lambda: tf.zeros([1, 2, 3])),
    "boxes_text": _other("detection_boxes", lambda: tf.constant([[["a"] * 4] * 2])),
    "count_nan": _other("num_detections", lambda: tf.constant([math.nan])),
    "count_1e30": _other("num_detections", lambda: tf.constant([1e30])),
    "score_nan": _other("detection_scores", lambda: tf.constant([[math.nan, 1.0]])),
    "class_1e20": _other("detection_classes", lambda: tf.constant([[1e20, 1.0]])),
    "boxes_1e30": _other("detection_boxes", lambda: tf.constant([[[-1e30, -1e30, 1e30, 1e30]] * 2])),
    "memory": _other("detection_scores", lambda: tf.reduce_sum(tf.ones([200_000, 20_000])) * tf.ones([1, 2])),
    "endless": _other("detection_scores", lambda: _loop() * tf.ones([1, 2])),
    "fails": _other("detection_scores", lambda: tf.debugging.check_numerics(tf.ones([1, 2]) * math.nan, "")),
}


def _length(path):
    return tf.cast(tf.strings.length(tf.io.read_file(path)), tf.float32) / 1e5


def _loop():
    return tf.while_loop(lambda x: x > 0.0, lambda x: (tf.sin(x) * 0.0 + 1.0,), (tf.constant(1.0),))[0]


def _save(change, folder, resource=False):
    model = _Detector(change)
    if resource:
        model.table = _Resource()
        model.handle = model.table.resource_handle
    tf.saved_model.save(model, str(folder), signatures={"serving_default": model.serve})


def _hide_resource(graph):
    """Strip what lists the function of a resource that writes when it is loaded."""
    graph.collection_def.clear()
    graph.signature_def.pop("__saved_model_init_op", None)
    for name in [n for n in graph.object_graph_def.concrete_functions if "initialize" in n]:
        del graph.object_graph_def.concrete_functions[name]


def _put_signatures_at_root(graph):
    for child in graph.object_graph_def.nodes[0].children:
        if child.local_name == "signatures":
            child.node_id = 0


def _clear_structure(graph):
    for function in graph.object_graph_def.concrete_functions.values():
        function.ClearField("canonicalized_input_signature")
        function.ClearField("output_signature")


def _raise_node_ids(graph):
    for node in graph.object_graph_def.nodes:
        for child in node.children:
            child.node_id += 2**30


_EDITS = {
    "hidden_resource": _hide_resource,
    "signatures_at_root": _put_signatures_at_root,
    "no_structure": _clear_structure,
    "node_ids": _raise_node_ids,
}


def _tflite(path):
    """Convert a small network to int8, with scales per channel."""
    weights = tf.constant(tf.random.stateless_normal([3, 3, 3, 8], seed=[1, 2]))
    function = tf.function(lambda x: tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(x, weights, 2, "SAME")), [1, 2]))
    spec = tf.TensorSpec([1, 32, 32, 3], tf.float32)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function(spec)])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([tf.ones([1, 32, 32, 3]) * k / 10] for k in range(10))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    path.write_bytes(converter.convert())


def main(folder):
    """Write every model to a folder of its name."""
    for name, change in _MODELS.items():
        _save(change, folder / name)
    _save(_MODELS["good"], folder / "resource", resource=True)
    for name, change in _EDITS.items():
        _save(_MODELS["good"], folder / name, resource=name == "hidden_resource")
        path = folder / name / "saved_model.pb"
        saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
        change(saved.meta_graphs[0])
        path.write_bytes(saved.SerializeToString())
    tf.saved_model.save(tf.Module(), str(folder / "no_signature"))
    _tflite(folder / "int8.tflite")
    tf.train.Checkpoint(a=tf.Variable(tf.ones([16, 16]))).write(str(folder / "ckpt-0"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
