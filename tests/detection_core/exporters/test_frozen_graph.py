"""Graphs without variables, for other programs."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.exporters.frozen_graph import (
    DETECTIONS,
    frozen_graph,
    ordered,
    plain_graph,
    portable_function,
)
from detection_core.exporters.signatures import serving_function
from detection_core.families.ssd.tflite import tflite_function
from tests.support import tiny_files
from tests.support.cases import cases
from tests.support.served_requests import IMAGES, REQUESTS, RESIZER
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_files import INPUTS, OPTIONS, file_of, function_of, run


def fetched(content: bytes, names: Iterable[str], inputs: dict[str, Any]) -> dict[str, Any]:
    """Run a graph as callers of TensorFlow 1 do."""
    definition = tf.compat.v1.GraphDef.FromString(content)
    with tf.Graph().as_default():
        tf.import_graph_def(definition, name="")
        with tf.compat.v1.Session() as session:
            feed = {f"{name}:0": value for name, value in inputs.items()}
            return session.run({name: f"{name}:0" for name in names}, feed)


@cases("image_tensor", "tf_example")
def test_it_runs_in_a_session_and_gives_what_the_detector_finds(*, input_type):
    function = serving_function(TinyDetector(), RESIZER, input_type=input_type)
    content = frozen_graph(function, input_type)
    definition = tf.compat.v1.GraphDef.FromString(content)
    assert not {"VarHandleOp", "ReadVariableOp", "VariableV2"} & {node.op for node in definition.node}
    request = REQUESTS[input_type](IMAGES)
    expected = function(request)
    found = fetched(content, expected, {input_type: request.numpy()})
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5, err_msg=name)


def test_further_tensors_keep_their_names_and_nodes_one_order():
    plain = serving_function(TinyDetector(), RESIZER)
    name = next(o.outputs[0].name for o in plain.graph.get_operations() if o.type == "Conv2D")
    function = serving_function(TinyDetector(), RESIZER, additional=[name])
    definition = tf.compat.v1.GraphDef.FromString(frozen_graph(function, "image_tensor"))
    assert name.partition(":")[0] in {node.name for node in definition.node}
    content = frozen_graph(looping(), "values")
    definition = tf.compat.v1.GraphDef.FromString(content)
    assert {"Merge", "NextIteration"} <= {node.op for node in definition.node}
    shuffled = tf.compat.v1.GraphDef(versions=definition.versions)
    shuffled.node.extend(np.random.default_rng(0).permutation(np.array(definition.node, object)))
    assert shuffled != definition and ordered(shuffled) == definition
    found = fetched(content, ["found"], {"values": np.array([4.0, 2.0, 1.0], np.float32)})
    np.testing.assert_allclose(found["found"], looping()(tf.constant([4.0, 2.0, 1.0]))["found"])


def looping() -> Any:
    """A graph with a loop of TensorFlow 1, as suppression class by class becomes when it is frozen."""

    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32, name="values")])
    def halve(values):
        _, found = tf.while_loop(
            lambda step, now: tf.reduce_max(now) + step > 1.0,
            lambda step, now: (step * 0.5, now / 2),
            [0.5, values],
        )
        return {"found": tf.identity(found) + tf.reduce_sum(values)}

    return halve.get_concrete_function()


PIXELS = np.random.default_rng(0).normal(size=(1, 2, 2, 3)).astype(np.float32)
FIELDS = ("float_val", "int_val", "int64_val", "bool_val")


def frozen(body, shape=PIXELS.shape):
    spec = tf.TensorSpec(shape, tf.float32, name="images")
    return frozen_graph(tf.function(body, autograph=False).get_concrete_function(spec), "images")


def heads(images):
    """Two heads with what readers fall over: computed shapes, zeros, copies, one pixel."""
    random = np.random.default_rng(1)
    sizes = (3, 3, 3, 4), (3, 3, 4, 1)
    kernel, depthwise = (tf.constant(random.normal(size=size), tf.float32) for size in sizes)
    maps = tf.nn.bias_add(tf.nn.conv2d(images, kernel, 2, "SAME"), tf.zeros(4))
    maps = tf.identity(tf.nn.depthwise_conv2d(maps, depthwise, [1, 1, 1, 1], "SAME"))
    rows = tf.reshape(maps, tf.stack([tf.shape(tf.zeros([1, 5]))[0], -1, 2]))
    return {"location": tf.identity(tf.identity(rows)), "score": tf.concat([rows, rows + 1.0], 1)}


def test_a_plain_graph_computes_the_same_leaves_nothing_to_find_out_and_keeps_loops():
    content = frozen(heads)
    graphs = content, plain_graph(content, ["location", "score"])
    assert plain_graph(graphs[0], ["score", "location"]) == graphs[1]
    expected, found = (fetched(content, ("location", "score"), {"images": PIXELS}) for content in graphs)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5, err_msg=name)
    nodes = {node.name: node for node in tf.compat.v1.GraphDef.FromString(graphs[1]).node}
    computing = {node.op for node in nodes.values()}
    assert not computing & {"Identity", "Pack", "StridedSlice", "Shape", "NoOp"}
    assert (nodes["location"].op, nodes["score"].op) == ("Reshape", "ConcatV2")
    (reshape,) = (node for node in nodes.values() if node.op == "Reshape")
    assert nodes[reshape.input[1]].op == "Const"
    # A depthwise convolution of one pixel has the middle of its kernel.
    (depthwise,) = (node for node in nodes.values() if node.op == "DepthwiseConv2dNative")
    assert tf.make_ndarray(nodes[depthwise.input[1]].attr["value"].tensor).shape == (1, 1, 4, 1)
    short = 0
    for content, is_plain in zip(graphs, (False, True), strict=True):
        for node in tf.compat.v1.GraphDef.FromString(content).node:
            if node.op == "Const":
                tensor = node.attr["value"].tensor
                numbers = int(np.prod([side.size for side in tensor.tensor_shape.dim], dtype=int))
                written = sum(len(getattr(tensor, field)) for field in FIELDS)
                whole = bool(tensor.tensor_content) if numbers > 1 else written == 1
                assert whole or not is_plain, node.name
                short += not whole
    assert short > 0  # TensorFlow does write some short

    def counted(images):
        total = tf.while_loop(lambda i, _: i < 3, lambda i, t: (i + 1, t * 2.0), (0, images))[1]
        return {"total": total}

    content = frozen(counted)
    assert plain_graph(content, ["total"]) == content
    content = frozen(lambda images: {"total": images * 2.0, "size": tf.constant([2.0, 2.0]) * 3.0})
    found = fetched(plain_graph(content, ["total", "size"]), ("total", "size"), {"images": PIXELS})
    np.testing.assert_allclose(found["total"], 2 * PIXELS)
    np.testing.assert_allclose(found["size"], [6.0, 6.0])


NORMALISATION = ((127.5,) * 3, (127.5,) * 3)
IMAGE = tf.constant(tiny_files.PIXELS[:1])


def test_detections_and_heads_have_the_names_of_the_object_detection_api():
    function = portable_function(function_of(False, "plain_nms"), NORMALISATION)
    assert set(function.structured_outputs) == set(DETECTIONS)
    found = function(images=IMAGE)
    # `test_tflite` holds the file against suppression by hand.
    expected = run(file_of("float32"), INPUTS[0])
    np.testing.assert_allclose(found["detection_scores"], expected["output_1"], atol=1e-5)
    np.testing.assert_array_equal(found["detection_classes"], expected["output_2"] + 1)
    np.testing.assert_allclose(found["detection_boxes"], expected["output_3"], atol=1e-5)
    assert found["num_detections"] == [10.0]
    by_class = dataclasses.replace(OPTIONS, use_regular_nms=True, max_detections=100)
    function = tflite_function(TinyDetector(), by_class, integer=False, form="plain_nms")
    assert portable_function(function, NORMALISATION)(images=IMAGE)["num_detections"][0] > 10
    found = portable_function(function_of(False, "headless"), NORMALISATION)(images=IMAGE)
    assert {name: tuple(value.shape) for name, value in found.items()} == {
        "location": (1, 160, 4),
        "score": (1, 160, 3),
    }
