import numpy as np
import tensorflow as tf

from detection_core.exporters.frozen_graph import frozen_graph
from detection_core.exporters.plain_graph import plain_graph

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


def run(content, names, pixels=PIXELS):
    definition = tf.compat.v1.GraphDef.FromString(content)
    with tf.Graph().as_default():
        tf.import_graph_def(definition, name="")
        with tf.compat.v1.Session() as session:
            return session.run({name: f"{name}:0" for name in names}, {"images:0": pixels})


def test_a_plain_graph_computes_the_same_and_leaves_nothing_to_find_out():
    content = frozen(heads)
    graphs = content, plain_graph(content, ["location", "score"])
    assert plain_graph(graphs[0], ["score", "location"]) == graphs[1]
    expected, found = (run(content, ("location", "score")) for content in graphs)
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


def test_loops_stay_and_an_output_that_depends_on_nothing_is_a_constant():
    def counted(images):
        total = tf.while_loop(lambda i, _: i < 3, lambda i, t: (i + 1, t * 2.0), (0, images))[1]
        return {"total": total}

    content = frozen(counted)
    assert plain_graph(content, ["total"]) == content
    content = frozen(lambda images: {"total": images * 2.0, "size": tf.constant([2.0, 2.0]) * 3.0})
    found = run(plain_graph(content, ["total", "size"]), ("total", "size"))
    np.testing.assert_allclose(found["total"], 2 * PIXELS)
    np.testing.assert_allclose(found["size"], [6.0, 6.0])
