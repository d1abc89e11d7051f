from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.exporters.frozen_graph import frozen_graph, ordered
from detection_core.exporters.signatures import serving_function
from tests.support.cases import cases
from tests.support.served_requests import IMAGES, REQUESTS, RESIZER
from tests.support.tiny_detector import TinyDetector


def fetched(
    definition: tf.compat.v1.GraphDef, names: Iterable[str], inputs: dict[str, Any]
) -> dict[str, Any]:
    """Run a graph as callers of TensorFlow 1 do."""
    with tf.Graph().as_default():
        tf.import_graph_def(definition, name="")
        with tf.compat.v1.Session() as session:
            feed = {f"{name}:0": value for name, value in inputs.items()}
            return session.run({name: f"{name}:0" for name in names}, feed)


@cases("image_tensor", "tf_example")
def test_it_runs_in_a_session_and_gives_what_the_detector_finds(*, input_type):
    function = serving_function(TinyDetector(), RESIZER, input_type=input_type)
    definition = tf.compat.v1.GraphDef.FromString(frozen_graph(function, input_type))
    assert not {"VarHandleOp", "ReadVariableOp", "VariableV2"} & {node.op for node in definition.node}
    request = REQUESTS[input_type](IMAGES)
    expected = function(request)
    found = fetched(definition, expected, {input_type: request.numpy()})
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
    found = fetched(definition, ["found"], {"values": np.array([4.0, 2.0, 1.0], np.float32)})
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
