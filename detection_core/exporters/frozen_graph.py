"""Graphs for other runtimes: frozen ones as TensorFlow 1 wrote them, plain and portable ones."""

import graphlib
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
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
        outputs = tf.import_graph_def(
            frozen.graph.as_graph_def(),
            input_map={fed.name: tf.compat.v1.placeholder(fed.dtype, fed.shape, name=input_name)},
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

    TensorFlow orders the nodes of lowered loops differently in every process, and marks other ones as having
    control dependencies.
    """
    for node in definition.node:
        node.attr.pop("_has_manual_control_dependencies", None)
    nodes = {node.name: node for node in definition.node}
    sorter = graphlib.TopologicalSorter[str]()
    for node in nodes.values():
        sources = {name.removeprefix("^").partition(":")[0] for name in node.input}
        # without the back edge of a loop
        back = {name for name in sources if node.op == "Merge" and nodes[name].op == "NextIteration"}
        sorter.add(node.name, *sources - back)
    sorter.prepare()
    result = tf.compat.v1.GraphDef(versions=definition.versions, library=definition.library)
    while ready := sorted(sorter.get_ready()):
        result.node.extend(nodes[name] for name in ready)
        sorter.done(*ready)
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
        float32 [1, D, 4] (ymin, xmin, ymax, xmax, normalised, not clipped) and `detection_scores` [1, D],
        descending. `detection_classes` [1, D] begin at 1. `num_detections` is [1]. For `headless` it returns
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


# Nodes of loops and branches, whose parts cannot be computed alone.
_FLOW = {"Enter", "Switch", "Merge"}
_DEPTHWISE = "DepthwiseConv2dNative"
_COPY = "Identity"


def plain_graph(content: bytes, outputs: Collection[str]) -> bytes:
    """Fold everything that does not depend on the input, and write every constant in full.

    Importers such as OpenCV's do not fold constants. According to OpenCV's modules/dnn/src/tensorflow, 4.x,
    it reads a constant from its bytes. `getTensorContentRef_` returns an empty field for zeros, because
    TensorFlow omits them. Scalars are read only from their typed field (`int_val().Get(0)` of ConcatV2's
    axis). Shapes computed in the graph are not followed. An Identity is removed, and with it the name of an
    output. Measured with 4.14 and 5.0: a depthwise convolution of a one-pixel map gives wrong values without
    an error.

    Args:
        content: a serialised GraphDef without variables.
        outputs: names of the output nodes.

    Returns:
        A serialised GraphDef with the same outputs under the same names. The operation that computes an
        output gets the output's name; other operations keep theirs. A graph with loops is returned unchanged.
    """
    definition = tf.compat.v1.GraphDef.FromString(content)
    if any(node.op in _FLOW for node in definition.node):
        return content
    for node in definition.node:
        # Control inputs only order assertions; no value depends on them.
        data = [name for name in node.input if not name.startswith("^")]
        del node.input[:]
        node.input.extend(data)
    definition = tf.compat.v1.graph_util.extract_sub_graph(definition, sorted(outputs))
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
    written = _Writer(graph, outputs).graph()
    written.versions.CopyFrom(definition.versions)
    return bytes(written.SerializeToString(deterministic=True))


def _constants(operations: Iterable[Any]) -> set[str]:
    """Return the names of operations that do not depend on inputs; operations are in topological order."""
    found = set[str]()
    for operation in operations:
        from_constants = bool(operation.inputs) and all(i.op.name in found for i in operation.inputs)
        if operation.type == "Const" or (from_constants and not operation.op_def.is_stateful):
            found.add(operation.name)
    return found


class _Writer:
    """Writes a graph without the operations that can be folded."""

    def __init__(self, graph: Any, outputs: Collection[str]) -> None:
        operations = graph.get_operations()
        self._constants = _constants(operations)
        self._outputs = sorted(outputs)
        self._kept = [
            operation
            for operation in operations
            if operation.name not in self._constants
            and (operation.type != _COPY or operation.name in self._outputs)
        ]
        self._values = self._compute(graph)
        self._renamed = self._names_of_outputs(graph)
        self._middles = dict(self._one_pixel_kernels())

    def _compute(self, graph: Any) -> dict[str, np.ndarray]:
        """Return the values of the constant tensors that are read or returned, by name."""
        read = [_source(tensor).name for operation in self._kept for tensor in operation.inputs]
        read += [f"{name}:0" for name in self._outputs]
        names = [name for name in dict.fromkeys(read) if name.partition(":")[0] in self._constants]
        with tf.compat.v1.Session(graph=graph) as session:
            return dict(zip(names, session.run(names), strict=True))

    def _names_of_outputs(self, graph: Any) -> dict[str, str]:
        """Return new names for operations whose outputs are only copied to an output node."""
        renamed: dict[str, str] = {}
        for name in self._outputs:
            operation = graph.get_operation_by_name(name)
            if operation.type != _COPY or name in self._constants:
                continue
            producer = _source(operation.inputs[0]).op
            own = producer.type != "Placeholder" and producer.name not in {*self._outputs, *renamed}
            if own and len(producer.outputs) == 1:
                renamed[producer.name] = name
        return renamed

    def _one_pixel_kernels(self) -> Iterable[tuple[str, np.ndarray]]:
        """Yield the centres of depthwise kernels that run on one pixel, by the operation's name.

        With `SAME` padding only the centre of an odd kernel covers the pixel.
        """
        for operation in self._kept:
            if operation.type != _DEPTHWISE or operation.get_attr("padding") != b"SAME":
                continue
            pixels, kernel = map(_source, operation.inputs)
            sides = [(side - 1) // 2 for side in kernel.shape[:2]]
            if pixels.shape[1:3] == [1, 1] and kernel.name in self._values and any(sides):
                row, column = sides
                middle = self._values[kernel.name][row : row + 1, column : column + 1]
                yield operation.name, middle

    def graph(self) -> Any:
        """Return the GraphDef: constants first, then the other operations in order."""
        definition = tf.compat.v1.GraphDef()
        operations = [self._operation(op) for op in self._kept if op.name not in self._renamed.values()]
        read = {name for node in operations for name in node.input} | set(self._outputs)
        for tensor, value in self._values.items():
            if self._constant_name(tensor) in read:
                definition.node.append(_constant(self._constant_name(tensor), value))
        for name, middle in self._middles.items():
            definition.node.append(_constant(_middle_name(name), middle))
        definition.node.extend(operations)
        return definition

    def _operation(self, operation: Any) -> Any:
        node = tf.compat.v1.NodeDef()
        node.CopyFrom(operation.node_def)
        node.name = self._renamed.get(operation.name, operation.name)
        inputs = [self._reference(tensor) for tensor in operation.inputs]
        if operation.name in self._middles:
            inputs[1] = _middle_name(operation.name)
        del node.input[:]
        node.input.extend(inputs)
        return node

    def _reference(self, tensor: Any) -> str:
        """Return the name under which an operation reads a tensor."""
        tensor = _source(tensor)
        if tensor.name in self._values:
            return self._constant_name(tensor.name)
        name = self._renamed.get(tensor.op.name, tensor.op.name)
        return name if tensor.value_index == 0 else f"{name}:{tensor.value_index}"

    def _constant_name(self, tensor: str) -> str:
        name, _, index = tensor.partition(":")
        return name if index == "0" else f"{name}/output_{index}"


def _source(tensor: Any) -> Any:
    """Return the tensor behind a chain of Identity operations."""
    while tensor.op.type == _COPY:
        tensor = tensor.op.inputs[0]
    return tensor


def _middle_name(operation: str) -> str:
    return f"{operation}/middle"


def _constant(name: str, value: np.ndarray) -> Any:
    """Return a Const node with all values written: scalars in their typed field, others as bytes."""
    node = tf.compat.v1.NodeDef(name=name, op="Const")
    node.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, shape=np.shape(value)))
    return node
