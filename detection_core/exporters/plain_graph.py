"""Rewrite a frozen graph for importers that do not fold constants, such as OpenCV's.

According to OpenCV's modules/dnn/src/tensorflow, 4.x, the importer reads a constant from its bytes.
`getTensorContentRef_` returns an empty field for zeros, because TensorFlow omits them. Scalars are read only
from their typed field (`int_val().Get(0)` of ConcatV2's axis). Shapes computed in the graph are not followed.
An Identity is removed, and with it the name of an output. Measured with 4.14 and 5.0: a depthwise convolution
of a one-pixel map gives wrong values without an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

# Nodes of loops and branches, whose parts cannot be computed alone.
_FLOW = {"Enter", "Switch", "Merge"}
_DEPTHWISE = "DepthwiseConv2dNative"
_COPY = "Identity"


def plain_graph(content: bytes, outputs: Collection[str]) -> bytes:
    """Fold everything that does not depend on the input, and write every constant in full.

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
