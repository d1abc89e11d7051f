"""A frozen GraphDef: one file with graph and weights, as TensorFlow 1 exported detectors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from detection_core.errors import ExportError

FROZEN_GRAPH = "frozen_inference_graph.pb"


def frozen_graph(function: Any, input_name: str) -> bytes:
    """Freeze a function, under names that a caller can feed and fetch.

    Args:
        function: concrete function of one input, with a dictionary of outputs.
        input_name: name of the placeholder; of the Object Detection API's graphs it is the input type.

    Returns:
        A serialised GraphDef without variables and control-flow functions. Each output is the node of its
        name, such as `detection_boxes:0`; tensors inside the graph keep their names.

    Raises:
        ExportError: when an output's name is that of a node of the graph.
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
            # A tensor of the graph that is given out under its own name is there already.
            if ":" in name or tf.identity(output, name=name).op.name == name:
                continue
            raise ExportError(f"expected a name that no node of the graph has, found {name!r}")
    kept = [name.partition(":")[0] for name in names]
    definition = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), kept)
    return bytes(definition.SerializeToString(deterministic=True))
