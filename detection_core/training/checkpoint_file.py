"""Open checkpoint files and detect damage."""

import contextlib
import math
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from detection_core.artifacts.checkpoint_index import check_index
from detection_core.data import records
from detection_core.errors import DetectionError, ModelError, StorageError, as_user_error
from detection_core.model_use import model_in_use
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detection_core.training.checkpoint_prefix import check_shards, checkpoint_files, find_prefix

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""Key of the object graph in a TensorFlow 2 checkpoint."""
_READ_AT_ONCE = 64 << 20


@contextlib.contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn read failures other than damage into one error with the cause.

    Raises:
        StorageError: for a failure of the operating system, of TensorFlow's file system, or of memory.
    """
    try:
        yield
    except (OSError, MemoryError, tf.errors.OpError) as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: BaseException) -> StorageError:
    """Return the error for files that cannot be read but are not known to be damaged."""
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
    """Read every tensor to verify its checksum; return the damage found, or "".

    A restore that fails half way leaves deferred restorations in its objects, which a later restore would
    apply. Hence the whole file is read before any object is touched.

    Tensors are read by the op, whose errors have the classes of TensorFlow's file systems. The Python reader
    raises the wrong class: running out of file descriptors is a DataLossError there.

    Raises:
        OSError, tf.errors.OpError: when a file cannot be read, which does not mean damage.
    """
    try:
        # TensorFlow ignores a block of the index that it fails to read.
        files.read_bytes(f"{prefix}.index")
        check_shards(prefix)
        if not files.is_remote(prefix):
            # Raise the operating system's error for a file whose size would otherwise look like damage.
            for path in checkpoint_files(prefix):
                with open(path, "rb") as file:
                    file.read(1)
        check_index(prefix)  # dimensions that overflow end the process in TensorFlow's reader
        return _content_damage(prefix)
    except (FileNotFoundError, ModelError, tf.errors.DataLossError, tf.errors.OutOfRangeError) as error:
        return first_line(error)


def _content_damage(prefix: str) -> str:
    """Read every tensor of a complete checkpoint; return the damage found, or ""."""
    try:
        (graph,) = _read_tensors(prefix, {OBJECT_GRAPH: tf.string})
    except tf.errors.NotFoundError as error:
        return first_line(error)
    try:
        reader = tf.train.load_checkpoint(prefix)
    except tf.errors.OpError as error:
        raise OSError(first_line(error)) from error  # its class is unreliable, see `find_damage`
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
    """Return an error's message on one line."""
    if isinstance(error, tf.errors.OpError):
        return records.first_line(error)
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


_DAMAGE = (tf.errors.OpError, RuntimeError, ValueError, IndexError)


class CheckpointFile:
    """A checkpoint opened for reading, object-based or name-based.

    A remote one is downloaded once, even with several readers.

    Attributes:
        prefix: path of the checkpoint without the suffixes of its files.
        shapes: key of every entry in the files -> its shape.
    """

    def __init__(self, path: str, *, names_only: bool = False) -> None:
        """Open a checkpoint.

        Args:
            path: the checkpoint's prefix, or a folder whose newest checkpoint is opened; the file itself for
                the oldest format of TensorFlow 1.
            names_only: values will not be read, so only the index of a remote checkpoint is downloaded.

        Raises:
            ModelError: when there is none, a file of it is missing, or it is damaged.
        """
        self.prefix = find_prefix(path)
        readable = self._copied_here(names_only) if files.is_remote(self.prefix) else self.prefix
        check_index(readable, where=self.prefix)
        try:
            with model_in_use(self.prefix):
                self._reader = tf.train.load_checkpoint(readable)
                shapes = self._reader.get_variable_to_shape_map()
        except _DAMAGE as error:
            raise self.damaged(error) from error
        self.shapes = {key: tuple(shape) for key, shape in shapes.items()}

    @property
    def is_object_based(self) -> bool:
        """Whether it is a TensorFlow 2 checkpoint with an object graph."""
        return OBJECT_GRAPH in self.shapes

    def read(self, key: str) -> np.ndarray:
        """Read a value; bytes for a string. Raises ModelError when the file is damaged."""
        try:
            return self._reader.get_tensor(key)
        except _DAMAGE as error:
            raise self.damaged(error) from error

    def _copied_here(self, names_only: bool) -> str:
        """Download a remote checkpoint, as TensorFlow cannot open every path; return the local prefix."""
        self._scratch = ScratchFolder()  # Deleted with this object.
        paths = checkpoint_files(self.prefix)
        index = [path for path in paths if path.endswith(".index")]
        for path in (index if names_only else []) or paths:
            files.download(path, files.join(self._scratch.name, path.rpartition("/")[2]))
        return files.join(self._scratch.name, self.prefix.rpartition("/")[2])

    def damaged(self, error: Exception) -> DetectionError:
        """Return the error for a failed read: damage, unless the operating system gives another cause."""
        if as_user_error(error):
            return unreadable(self.prefix, error)
        return ModelError(
            f"expected a readable checkpoint, found a damaged or truncated one ({first_line(error)}); copy it"
            " again",
            where=self.prefix,
        )
