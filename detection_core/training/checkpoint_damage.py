"""What is wrong with a checkpoint's files, told apart from what keeps them from being read."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping

import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from detection_core.artifacts.checkpoint_index import check_index
from detection_core.data import records
from detection_core.errors import ModelError, StorageError, as_user_error
from detection_core.storage import files
from detection_core.training.checkpoint_prefix import check_shards, checkpoint_files

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""Name under which TensorFlow 2 keeps the graph of a checkpoint's objects."""
_READ_AT_ONCE = 64 << 20


@contextlib.contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn what keeps files from being read, other than damage, into one error with the cause.

    Raises:
        StorageError: for a failure of the system, of a store's file system in TensorFlow, or of the memory.
    """
    try:
        yield
    except (OSError, MemoryError, tf.errors.OpError) as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: BaseException) -> StorageError:
    """Return the error for files that could not be read, though nothing says that they are damaged."""
    known = as_user_error(error)
    found = (
        known.message.partition("found: ")[2]
        if known
        else f"{first_line(error)}; run again once it is mended"
    )
    return StorageError(
        f"expected to read this checkpoint, found: {found}. It is kept, as this is no sign of damage",
        where=path,
    )


def find_damage(prefix: str) -> str:
    """Read every tensor, so that each checksum is compared; say what is wrong, or "".

    A restore that fails half way leaves requests behind in the objects it was to fill, which a later restore
    would try to serve. Hence the whole file is read before any object is touched.

    Tensors are read by the operation, whose errors have the classes of TensorFlow's file systems. The
    reader's errors in Python have not: used-up file descriptors are a DataLossError there.

    Raises:
        OSError, tf.errors.OpError: when a file cannot be read; this says nothing of what is in it.
    """
    try:
        # TensorFlow passes over a block of the index that it fails to read.
        files.read_bytes(f"{prefix}.index")
        check_shards(prefix)
        if not files.is_remote(prefix):
            _check_readable(prefix)
        check_index(prefix)  # dimensions that overflow end the process in TensorFlow's reader
        return _content_damage(prefix)
    except (FileNotFoundError, ModelError) as error:
        return first_line(error)
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError) as error:
        return first_line(error)


def _check_readable(prefix: str) -> None:
    """Raise what the system says of a file whose size would otherwise count as damage."""
    for path in checkpoint_files(prefix):
        with open(path, "rb") as file:
            file.read(1)


def _content_damage(prefix: str) -> str:
    """Read every tensor of a checkpoint whose files are all there; say what is wrong, or ""."""
    try:
        (graph,) = _read_tensors(prefix, {OBJECT_GRAPH: tf.string})
    except tf.errors.NotFoundError as error:
        return first_line(error)
    try:
        reader = tf.train.load_checkpoint(prefix)
    except tf.errors.OpError as error:
        raise OSError(first_line(error)) from error  # its class says nothing, see `find_damage`
    dtypes, shapes = reader.get_variable_to_dtype_map(), reader.get_variable_to_shape_map()
    nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph.numpy()).nodes
    missing = {saved.checkpoint_key for node in nodes for saved in node.attributes} - dtypes.keys()
    if missing:
        return f"the index lacks {len(missing)} of its entries"
    group: dict[str, tf.DType] = {}
    size = 0
    for name, dtype in dtypes.items():
        group[name] = dtype
        size += dtype.size * math.prod(shapes[name])
        if size >= _READ_AT_ONCE:
            _read_tensors(prefix, group)
            group, size = {}, 0
    _read_tensors(prefix, group)
    return ""


def _read_tensors(prefix: str, dtypes: Mapping[str, tf.DType]) -> list[tf.Tensor]:
    if not dtypes:
        return []
    with tf.device("CPU:0"):
        return list(
            tf.raw_ops.RestoreV2(
                prefix=prefix,
                tensor_names=list(dtypes),
                shape_and_slices=[""] * len(dtypes),
                dtypes=list(dtypes.values()),
            )
        )


def first_line(error: BaseException) -> str:
    """Return what an error says, on one line."""
    if isinstance(error, tf.errors.OpError):
        return records.first_line(error)
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
