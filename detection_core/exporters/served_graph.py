"""Fingerprint the computation of a SavedModel, equal for every export of one detector.

The bytes of saved_model.pb vary between exports of equal content. Numbers in the names of functions and nodes
depend on earlier traces, and maps are unordered. So a node's digest covers its operation, its attributes and
the digests of its inputs (a Merkle tree). A function counts by its body, not by its name. Functions that no
signature needs, such as those that save and restore, do not count.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from detection_core.artifacts import detector as layout
from detection_core.artifacts.checkpoint_index import check_index
from detection_core.artifacts.graph_operations import producer
from detection_core.errors import ModelError, as_user_error
from detection_core.storage import files
from detection_core.storage.files import local_copy

# Attributes on how and where an operation runs, not what it computes; also those that start with "_".
_RUNTIME_ATTRIBUTES = ("config_proto", "executor_type", "debug_name")
_BACK_EDGE = "NextIteration"
_INITIALISERS = ("saved_model_main_op", "legacy_init_op")
_WEIGHTS = "variables/variables"
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def fingerprint_saved_model(directory: str) -> str:
    """Return hexadecimal digits of what is served: graph, weights, assets and the label map beside them.

    For an unreadable saved_model.pb, its bytes count.

    Raises:
        ModelError: if the weights cannot be read.
    """
    content = files.read_bytes(files.join(directory, layout.SAVED_MODEL))
    parts = [_served(content), _weights(files.join(directory, _WEIGHTS))]
    for folder, pattern in (("assets", "*"), (layout.EXTRA, layout.LABEL_MAP)):
        for path in files.list_matching(files.join(directory, folder), pattern):
            parts += [path.rpartition("/")[2].encode(), files.read_bytes(path)]
    return _digest(*parts).hex()


def _digest(*parts: bytes | str) -> bytes:
    """Digest of a sequence; it includes the lengths, so that different sequences never collide."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def _weights(prefix: str) -> bytes:
    """Digest of all variables by name, because their order in the files varies between exports."""
    folder, _, name = prefix.rpartition("/")
    if not files.exists(f"{prefix}.index"):
        return _digest(*map(files.read_bytes, files.list_matching(folder, f"{name}.data-*")))
    import tensorflow as tf
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    try:
        with local_copy(folder) as here:
            check_index(files.join(here, name), where=prefix)
            reader = tf.train.load_checkpoint(files.join(here, name))
            values = {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}
    except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
        raise as_user_error(error) or ModelError(
            f"expected readable weights, found damaged ones ({str(error).splitlines()[0]}); export the model"
            " again",
            where=prefix,
        ) from error
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(values.pop(_OBJECT_GRAPH, b""))
    names = {a.checkpoint_key: a.full_name for node in graph.nodes for a in node.attributes}
    return _digest(*sorted(_value(names.get(key) or key, np.asarray(v)) for key, v in values.items()))


def _value(name: str, value: np.ndarray) -> bytes:
    content = _digest(*value.ravel().tolist()) if value.dtype == object else value.tobytes()
    return _digest(name, str(value.dtype), str(value.shape), content)


def _served(content: bytes) -> bytes:
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    try:
        saved = saved_model_pb2.SavedModel.FromString(content)
    except DecodeError:
        return _digest(content)
    return _digest(*(_meta_graph(meta) for meta in saved.meta_graphs))


def _meta_graph(meta: Any) -> bytes:
    functions = _Functions(meta.graph_def.library.function)
    parts = [",".join(sorted(meta.meta_info_def.tags)).encode()]
    for name, signature in sorted(meta.signature_def.items()):
        fed = {producer(info.name): key for key, info in signature.inputs.items()}
        leaves = {node: _digest("input", key) for node, key in fed.items()}
        nodes = _Nodes(meta.graph_def.node, leaves, functions.digest)
        parts += [name.encode(), signature.method_name.encode()]
        for key, info in sorted(signature.inputs.items()):
            parts += [key.encode(), _tensor_type(info)]
        for key, info in sorted(signature.outputs.items()):
            parts += [key.encode(), _tensor_type(info), nodes.input(info.name)]
    nodes = _Nodes(meta.graph_def.node, {}, functions.digest)
    for collection in _INITIALISERS:
        if collection in meta.collection_def:
            parts += [nodes.input(name) for name in meta.collection_def[collection].node_list.value]
    return _digest(*parts)


def _tensor_type(info: Any) -> bytes:
    return _digest(str(info.dtype), info.tensor_shape.SerializeToString(deterministic=True))


class _Functions:
    """Digests of a graph's functions; names are ignored, because they end with a varying number."""

    def __init__(self, definitions: Iterable[Any]) -> None:
        self._definitions = {function.signature.name: function for function in definitions}
        self._digests: dict[str, bytes] = {}

    def digest(self, name: str) -> bytes:
        """Digest of a function; an unknown or recursive one counts by its name."""
        if name not in self._digests:
            self._digests[name] = _digest("function", name)
            if name in self._definitions:
                self._digests[name] = self._of_body(self._definitions[name])
        return self._digests[name]

    def _of_body(self, function: Any) -> bytes:
        arguments = function.signature.input_arg
        leaves = {a.name: _digest("argument", str(i), str(a.type)) for i, a in enumerate(arguments)}
        nodes = _Nodes(function.node_def, leaves, self.digest)
        results = [nodes.input(function.ret[output.name]) for output in function.signature.output_arg]
        effects = sorted(nodes.input(f"^{node}") for node in function.control_ret.values())
        return _digest("body", *results, "effects", *effects)


class _Nodes:
    """Digests of the nodes of one graph or function body.

    Attributes are compared as written. A graph with loops of TensorFlow 1, which has cycles, counts as a
    whole and by its names.
    """

    def __init__(
        self, nodes: Iterable[Any], leaves: Mapping[str, bytes], function: Callable[[str], bytes]
    ) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._digests = dict(leaves)
        self._function = function
        self._whole = b""
        if any(node.op == _BACK_EDGE for node in self._nodes.values()):
            ordered = sorted(self._nodes.items())
            parts = (_digest(name, n.op, *sorted(n.input), *self._attributes(n)) for name, n in ordered)
            self._whole = _digest(*parts)

    def input(self, reference: str) -> bytes:
        """Digest of the value, or the control edge, that a reference names."""
        name = producer(reference)
        if self._whole:
            return _digest(self._whole, reference)
        self._compute(name)
        output_index = reference.partition(":")[2]
        return _digest("after" if reference.startswith("^") else output_index or "0", self._digests[name])

    def _compute(self, name: str) -> None:
        """Compute the digests of a node and its inputs iteratively; graphs are too deep for recursion."""
        stack = [name]
        while stack:
            top = stack[-1]
            if top in self._digests:
                stack.pop()
                continue
            node = self._nodes[top]
            missing = [n for n in map(producer, node.input) if n not in self._digests]
            if missing:
                stack += missing
                continue
            after = sorted(self.input(i) for i in node.input if i.startswith("^"))
            data = [self.input(i) for i in node.input if not i.startswith("^")]
            self._digests[top] = _digest(node.op, *self._attributes(node), "inputs", *data, "after", *after)
            stack.pop()

    def _attributes(self, node: Any) -> list[bytes]:
        return [
            part
            for name, value in sorted(node.attr.items())
            if not name.startswith("_") and name not in _RUNTIME_ATTRIBUTES
            for part in (name.encode(), self._attribute(value))
        ]

    def _attribute(self, value: Any) -> bytes:
        functions = [value.func] if value.HasField("func") else list(value.list.func)
        if functions:
            return _digest(*(self._function(function.name) for function in functions))
        return bytes(value.SerializeToString(deterministic=True))
