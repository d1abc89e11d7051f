"""Graphs for other runtimes: frozen ones as TensorFlow 1 exported detectors, and portable ones."""

from __future__ import annotations

import heapq
from typing import Any

import tensorflow as tf

from detection_core.detectors.family import Normalisation
from detection_core.errors import ExportError
from detection_core.structures import FIRST_CLASS

FROZEN_GRAPH = "frozen_inference_graph.pb"


def frozen_graph(function: Any, input_name: str) -> bytes:
    """Freeze a function into one file of graph and weights, with names to feed and fetch.

    Args:
        function: concrete function of one input, with a dictionary of outputs.
        input_name: name of the placeholder; in the Object Detection API's graphs it is the input type.

    Returns:
        A serialised GraphDef without variables and control-flow functions. Each output is the node of its
        name, such as `detection_boxes:0`; inner tensors keep their names. Equal functions give equal bytes.

    Raises:
        ExportError: if an output's name is that of a node of the graph.
    """
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    frozen = convert_variables_to_constants_v2(function)
    names = sorted(function.structured_outputs)
    (fed,) = frozen.inputs
    with tf.Graph().as_default() as graph:
        placeholder = tf.compat.v1.placeholder(fed.dtype, fed.shape, name=input_name)
        outputs = tf.import_graph_def(
            frozen.graph.as_graph_def(),
            input_map={fed.name: placeholder},
            return_elements=[output.name for output in frozen.outputs],
            name="",
        )
        for name, output in zip(names, outputs, strict=True):
            # A tensor that is returned under its own name already exists.
            if ":" in name or tf.identity(output, name=name).op.name == name:
                continue
            raise ExportError(f"expected a name that no node of the graph has, found {name!r}")
    kept = [name.partition(":")[0] for name in names]
    definition = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), kept)
    return bytes(ordered(definition).SerializeToString(deterministic=True))


def ordered(definition: Any) -> Any:
    """Return the nodes in topological order, ties by name.

    TensorFlow orders the nodes of lowered loops differently in every process.
    """
    nodes = {node.name: node for node in definition.node}
    readers: dict[str, list[str]] = {name: [] for name in nodes}
    missing = dict.fromkeys(nodes, 0)
    for node in nodes.values():
        for source in {name.removeprefix("^").partition(":")[0] for name in node.input}:
            # the back edge of a loop
            if not (node.op == "Merge" and nodes[source].op == "NextIteration"):
                readers[source].append(node.name)
                missing[node.name] += 1
    ready = [name for name, count in missing.items() if not count]
    heapq.heapify(ready)
    result = tf.compat.v1.GraphDef(versions=definition.versions, library=definition.library)
    while ready:
        name = heapq.heappop(ready)
        result.node.append(nodes[name])
        for reader in readers[name]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return result


PORTABLE_INPUT = "images"
# Outputs of a file's function with post-processing, in order.
DETECTIONS = ("num_detections", "detection_scores", "detection_classes", "detection_boxes")


def portable_function(function: Any, normalisation: Normalisation) -> Any:
    """Make a function of one image's pixels, in plain operations, from a family's `tflite.function`.

    The serving SavedModel contains resizing, and CombinedNonMaxSuppression or loops, which OpenVINO, Core ML
    and others do not support.

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
