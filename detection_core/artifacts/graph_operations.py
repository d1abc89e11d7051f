"""Refuse SavedModels that do more than compute, by reading the graph before TensorFlow loads it.

Loading a SavedModel already runs parts of it. A graph's operations may read and write files, open connections
or call Python. Before loading, the graph is only data. All its nodes, including those of library functions,
are compared with a list of operations that only compute. Operations that save and restore variables are
allowed only in the saver.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from detection_core.artifacts import detector as layout
from detection_core.bounded.plain_yaml import module_table
from detection_core.errors import ModelError, as_read_error
from detection_core.storage import files

_NAMED_IN_ERROR = 5

COMPUTING = frozenset(name for group in module_table(__file__).values() for name in group.split())
"""Operations that only compute; see graph_operations.yaml."""
# Every SavedModel needs these to write and read its variables. They take file names as an input, so they must
# not be reachable from anything else.
SAVING = frozenset({"SaveV2", "MergeV2Checkpoints"})
RESTORING = frozenset({"RestoreV2"})
_FILE_OPERATIONS = SAVING | RESTORING
# Lists the savers that a graph was written with; loading does not run them.
_SAVERS = "savers"
_MAX_BYTES = 2**31  # the limit of a Protocol Buffers message


def check_graph(directory: str, *, trust: bool = False, where: str = "") -> None:
    """Refuse a SavedModel with operations that do more than compute.

    Args:
        directory: the SavedModel's folder.
        trust: accept forbidden operations, because the caller trusts the author.
        where: the model's path for errors; "" is the file's path.

    Raises:
        ModelError: naming the operations; also, regardless of `trust`, when saved_model.pb is invalid.
    """
    path = files.join(directory, layout.SAVED_MODEL)
    saved, _ = read_saved_model(path, where or path)
    _check(saved, where or path, trust=trust)


def read_frozen_graph(path: str, *, trust: bool = False) -> Any:
    """Read a frozen graph, a GraphDef in one file, and refuse it as `check_graph` refuses a SavedModel.

    Raises:
        ModelError: if it is no graph, or does more than compute and is not trusted.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel()
    graph = saved.meta_graphs.add().graph_def
    try:
        graph.ParseFromString(files.read_bytes(path))
    except DecodeError as error:
        raise ModelError(
            f"expected a frozen graph, found a file that is damaged or none ({error}); export the model"
            " again",
            where=path,
        ) from error
    _check(saved, path, trust=trust)
    return graph


def _check(saved: Any, where: str, *, trust: bool) -> None:
    refused = [] if trust else sorted({name for meta in saved.meta_graphs for name in _refused(meta)})
    if not trust and _has_unknown_fields(saved):
        refused.append("fields that this version of TensorFlow does not know")
    if not refused:
        return
    named = ", ".join(refused[:_NAMED_IN_ERROR])
    more = f" and {len(refused) - _NAMED_IN_ERROR} more" if len(refused) > _NAMED_IN_ERROR else ""
    raise ModelError(
        f"expected a graph that only computes, found {named}{more} in it, which may read or write files, open"
        " connections or run code; nothing of it was loaded. If you know who made this model and trust them,"
        " `detflow predict` and `detflow evaluate` run it with --trust",
        where=where,
    )


def read_saved_model(path: str, where: str) -> tuple[Any, bytes]:
    """Return a saved_model.pb as message and as bytes; errors name the path `where`.

    Raises:
        ModelError: when it cannot be parsed, has no graph, is a pipe, or exceeds the size limit of messages.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    try:
        content = files.read_regular(path, _MAX_BYTES)
        saved = saved_model_pb2.SavedModel.FromString(content)
    except (DecodeError, OSError) as error:
        raise as_read_error(error) or ModelError(
            f"expected a SavedModel, found a file that is damaged or none ({error}); export the model again",
            where=where,
        ) from error
    if not saved.meta_graphs:
        raise ModelError(
            "expected a SavedModel, found a file without a graph; export the model again", where=where
        )
    return saved, content


def _has_unknown_fields(saved: Any) -> bool:
    known = type(saved)()
    known.CopyFrom(saved)
    known.DiscardUnknownFields()
    return bool(known.ByteSize() != saved.ByteSize())


def _refused(meta: Any) -> Iterator[str]:
    """Yield names of forbidden operations and misplaced items in a graph.

    TensorFlow runs functions from many lists: signatures, objects whose `_initialize` loading calls,
    captures, gradients, attributes. So every function is checked, listed or not.
    """
    functions = meta.graph_def.library.function
    library = {function.signature.name for function in functions}
    yield from (name for name in library if _is_operation(name))
    yield from _named_twice(function.signature.name for function in functions)
    uses = [_uses(nodes) for nodes in (meta.graph_def.node, *(function.node_def for function in functions))]
    for used in uses:
        yield from used - library - COMPUTING - _FILE_OPERATIONS
    for nodes in (meta.graph_def.node, *(function.node_def for function in functions)):
        yield from _named_twice(node.name for node in nodes)
    for function in functions:
        # A default value would apply to calls that do not show the attribute.
        yield from (a.name for a in function.signature.attr if a.HasField("default_value"))
    assets = [asset.filename for asset in meta.asset_file_def]
    yield from (name for name in assets if name in ("", ".", "..") or set(name) & set("/\\\0"))
    calls = dict(zip((function.signature.name for function in functions), uses[1:], strict=True))
    yield from _Saver(meta, calls).misplaced()


def _is_operation(name: str) -> bool:
    """Return whether TensorFlow has an operation of this name, which would run instead of the function."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(name) is not None


def _named_twice(names: Iterable[str]) -> Iterator[str]:
    """Yield ambiguous names: TensorFlow may resolve them differently."""
    return (name for name, count in collections.Counter(names).items() if count > 1)


def _uses(nodes: Iterable[Any]) -> set[str]:
    """Return the operations of nodes and the names of functions that they may call."""
    found = set()
    for node in nodes:
        found.add(node.op)
        for value in node.attr.values():
            found.update(_called(value))
    return found


def _called(value: Any) -> Iterator[str]:
    """Yield the functions that an attribute names; a placeholder gives a name that no function has."""
    kind = value.WhichOneof("value")
    if kind == "placeholder":
        yield f"${value.placeholder}"
    for function in {"func": [value.func], "list": value.list.func}.get(kind, ()):
        yield function.name
        for inner in function.attr.values():
            yield from _called(inner)


class _Saver:
    """The part of a graph that saves and restores variables, and that nothing else may run.

    Only nodes behind the saver's two names, and functions that only these call, may touch files. Any other
    node that depends on them or names them is refused.
    """

    def __init__(self, meta: Any, calls: Mapping[str, set[str]]) -> None:
        self._meta, self._calls = meta, calls
        self._functions = set(_FILE_OPERATIONS)
        while more := {name for name, used in calls.items() if used & self._functions} - self._functions:
            self._functions |= more
        self._functions -= _FILE_OPERATIONS
        self._inputs = {node.name: {producer(name) for name in node.input} for node in meta.graph_def.node}
        touching = self._functions | _FILE_OPERATIONS
        self._touching = {
            node.name: used for node in meta.graph_def.node if (used := _uses([node]) & touching)
        }

    def misplaced(self) -> Iterator[str]:
        """Yield file operations that something other than the saver can reach."""
        saver = self._meta.saver_def
        saves = _reached({producer(saver.save_tensor_name)}, self._inputs)
        restores = _reached({producer(saver.restore_op_name)}, self._inputs)
        named, records, listing = self._named_nodes(), self._records(), self._listing()
        for name in self._depending():
            if name not in saves | restores or name in named or name.encode() in records:
                yield from self._operations(self._behind({name}))
        yield from self._operations(self._behind(restores)) & SAVING
        placed = _reached(self._behind(saves | restores), self._calls)
        for name in self._functions:
            if name not in placed or name.encode() in listing:
                yield from self._operations({name})
        for name in restores & self._touching.keys():
            if not self._reads_the_savers_file(name):
                yield from RESTORING

    def _depending(self) -> set[str]:
        """Return the outer graph's nodes that touch files or depend on one that does."""
        consumers: dict[str, set[str]] = {}
        for name, producers in self._inputs.items():
            for source in producers:
                consumers.setdefault(source, set()).add(name)
        return _reached(self._touching, consumers)

    def _behind(self, names: Iterable[str]) -> set[str]:
        """Return the file operations, and functions with them, that nodes of the outer graph need."""
        return {use for name in _reached(names, self._inputs) for use in self._touching.get(name, ())}

    def _operations(self, used: Iterable[str]) -> set[str]:
        return _reached(used, self._calls) & _FILE_OPERATIONS

    def _named_nodes(self) -> set[str]:
        signatures = self._meta.signature_def.values()
        infos = [info for s in signatures for part in (s.inputs, s.outputs) for info in part.values()]
        infos += [asset.tensor_info for asset in self._meta.asset_file_def]
        infos += [part for info in infos for part in info.composite_tensor.components]
        names = [info.name for info in infos]
        for sparse in (info.coo_sparse for info in infos):
            names += [sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name]
        for collection in self._meta.collection_def.values():
            names += collection.node_list.value
        return {producer(name) for name in names}

    def _listing(self) -> bytes:
        """Return the graph's other parts, not nodes, that may name a function."""
        library = self._meta.graph_def.library
        records = [self._meta.object_graph_def, *library.gradient, *library.registered_gradients]
        records += [value for function in library.function for value in function.attr.values()]
        aliases = [name.encode() for name in self._meta.meta_info_def.function_aliases]
        return b"\n".join([record.SerializeToString() for record in records] + aliases)

    def _records(self) -> bytes:
        """Return collections' records, such as variables; they may name nodes that loading runs."""
        values = []
        for key, collection in self._meta.collection_def.items():
            if key != _SAVERS:
                values += [*collection.bytes_list.value, *(each.value for each in collection.any_list.value)]
        return b"\n".join(values)

    def _reads_the_savers_file(self, name: str) -> bool:
        """Return whether a node restores only from the file that the saver receives."""
        node = next(node for node in self._meta.graph_def.node if node.name == name)
        place = 0
        if node.op not in RESTORING:
            (called,) = self._touching[name] if len(self._touching[name]) == 1 else ("",)
            functions = self._meta.graph_def.library.function
            function = next((f for f in functions if f.signature.name == called), None)
            if function is None:
                return False
            arguments = [argument.name for argument in function.signature.input_arg]
            files_read = {each.input[0] for each in function.node_def if each.op in RESTORING and each.input}
            if len(files_read) != 1 or not files_read <= set(arguments):
                return False
            place = arguments.index(files_read.pop())
        given = producer(node.input[place]) if place < len(node.input) else ""
        return given == producer(self._meta.saver_def.filename_tensor_name)


def producer(reference: str) -> str:
    """Return the node or argument of an input reference: ^NODE, NODE:1, NODE:out:0."""
    return reference.removeprefix("^").partition(":")[0]


def _reached(start: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    pending, seen = list(start), set()
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += edges.get(name, ())
    return seen
