"""A frozen graph gives what the function gives, under the names that callers of TensorFlow 1 know."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from detection_core.data.resize import FixedShapeResizer
from detection_core.exporters.frozen_graph import frozen_graph
from detection_core.exporters.signatures import serving_function
from tests.detection_core.exporters.test_served_inputs import IMAGES, REQUESTS
from tests.detection_core.exporters.tiny_detector import TinyDetector

RESIZER = FixedShapeResizer(height=32, width=32)


@pytest.mark.parametrize("input_type", REQUESTS)
def test_it_runs_in_a_session_and_gives_what_the_detector_finds(input_type):
    function = serving_function(TinyDetector(), RESIZER, input_type=input_type)
    definition = tf.compat.v1.GraphDef.FromString(frozen_graph(function, input_type))
    assert not {"VarHandleOp", "ReadVariableOp", "VariableV2"} & {node.op for node in definition.node}
    request = REQUESTS[input_type](IMAGES)
    expected = function(request)
    with tf.Graph().as_default():
        tf.import_graph_def(definition, name="")
        with tf.compat.v1.Session() as session:
            fetched = session.run(
                {name: f"{name}:0" for name in expected}, {f"{input_type}:0": request.numpy()}
            )
    for name, value in expected.items():
        np.testing.assert_allclose(fetched[name], value, atol=1e-5, err_msg=name)


def test_further_tensors_keep_their_names():
    plain = serving_function(TinyDetector(), RESIZER)
    name = next(o.outputs[0].name for o in plain.graph.get_operations() if o.type == "Conv2D")
    function = serving_function(TinyDetector(), RESIZER, additional=[name])
    definition = tf.compat.v1.GraphDef.FromString(frozen_graph(function, "image_tensor"))
    assert name.partition(":")[0] in {node.name for node in definition.node}
