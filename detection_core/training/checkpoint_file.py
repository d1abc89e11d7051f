"""The files of a checkpoint: find them, open them, and name any damage."""

from __future__ import annotations

import contextlib
import math
import re
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


def find_prefix(path: str) -> str:
    """Find the checkpoint that a path means.

    Args:
        path: prefix of the checkpoint's files, one of them, or a folder whose newest checkpoint is meant.

    Returns:
        Its prefix; for a checkpoint in the format before 2017, which is one file, that file.

    Raises:
        ModelError: when there is none, or one of its files is missing.
    """
    prefix = _latest(path.rstrip("/")) if files.is_dir(path) else path
    prefix = re.sub(r"\.(index|data-\d{5}-of-\d{5})$", "", prefix)
    if prefix and files.exists(f"{prefix}.index"):
        check_shards(prefix)
        return prefix
    if prefix and files.exists(prefix) and not files.is_dir(prefix):
        _refuse_other_file(prefix)
        return prefix
    if files.is_dir(path):
        _refuse_other_folder(path)
    raise ModelError(
        "expected a checkpoint, PREFIX.index with PREFIX.data-*, found none; give the prefix, as in"
        " checkpoint/ckpt-0, or the folder",
        where=path,
    )


# Beginnings of files that people take for checkpoints: offset, bytes, what it is, what to do.
_OTHER_FILES = (
    (
        4,
        b"TFL3",
        "a TensorFlow Lite file",
        "it runs with `detflow predict` and `evaluate`; to train on, give the checkpoint that it was made of",
    ),
    (
        0,
        b"\x89HDF",
        "Keras weights (HDF5)",
        "give a TensorFlow checkpoint, or the word imagenet",
    ),
    (0, b"PK\x03\x04", "a zip archive, as Keras and PyTorch write", "give a TensorFlow checkpoint"),
    (0, b"\x1f\x8b", "a compressed archive", "unpack it, and give the checkpoint in it"),
    (0, b"\x80", "a pickle, as PyTorch writes", "give a TensorFlow checkpoint"),
)
_SAVED_MODEL = "saved_model.pb"


def _refuse_other_file(path: str) -> None:
    """Call a file that is no checkpoint what it is.

    Raises:
        ModelError: for one that is known.
    """
    name = path.rpartition("/")[2]
    if name == _SAVED_MODEL:
        _refuse_other_folder(path.rpartition("/")[0] or ".")
    with files.open_file(path, "rb") as file:
        begin = file.read(8)
    for offset, magic, kind, remedy in _OTHER_FILES:
        if begin[offset : offset + len(magic)] == magic:
            raise ModelError(f"expected a checkpoint, found {kind}; {remedy}", where=path)
    if name.endswith((".pb", ".onnx")):
        raise ModelError("expected a checkpoint, found a model's graph; give its checkpoint", where=path)


def _refuse_other_folder(folder: str) -> None:
    """Call a folder without a checkpoint what it is.

    Raises:
        ModelError: for a SavedModel, or one with the checkpoint's folder in it.
    """
    within = files.join(folder, "checkpoint")
    if files.is_dir(within):
        found = f"a folder with one in it; give {within}"
    elif files.exists(files.join(folder, _SAVED_MODEL)):
        found = (
            "a SavedModel; it runs with `detflow predict` and `evaluate`; to train on, give the checkpoint"
            " that it was made of, or, for a folder that detflow wrote, name it as the detector to start"
            " from (`train.warm_start`, `--warm-start`)"
        )
    else:
        return
    raise ModelError(f"expected a checkpoint, found {found}", where=folder)


def _latest(folder: str) -> str:
    """Prefix of the checkpoint that TensorFlow's note in a folder calls the latest, or ""."""
    note = files.join(folder, "checkpoint")
    try:
        text = files.read_text(note) if files.exists(note) and not files.is_dir(note) else ""
    except UnicodeDecodeError:
        text = ""  # no note of TensorFlow's
    latest = re.search(r'^model_checkpoint_path: "(.+)"', text)
    # The folder may have been moved since the note was written with a whole path.
    return files.join(folder, latest[1].rpartition("/")[2]) if latest else ""


def check_shards(prefix: str) -> None:
    """Refuse a checkpoint whose files are not all there.

    Raises:
        ModelError: naming the first data file that is missing.
    """
    folder, _, name = prefix.rpartition("/")
    shard = re.compile(re.escape(name) + r"\.data-(\d{5})-of-(\d{5})")
    shards = [match.groups() for match in map(shard.fullmatch, files.list_dir(folder or ".")) if match]
    count = max((int(count) for _, count in shards), default=1)
    missing = sorted({f"{i:05d}" for i in range(count)} - {i for i, of in shards if int(of) == count})
    if missing:
        raise ModelError(
            f"expected {count} data file{'s' * (count > 1)} beside the checkpoint's index, found"
            f" {count - len(missing)}, without {name}.data-{missing[0]}-of-{count:05d}; copy the checkpoint"
            " again, with all of its files",
            where=prefix,
        )


def checkpoint_files(prefix: str) -> list[str]:
    """Return the paths of a checkpoint's files, sorted.

    Args:
        prefix: from `find_prefix`.
    """
    if files.exists(prefix) and not files.is_dir(prefix):
        return [prefix]
    folder, _, name = prefix.rpartition("/")
    return files.list_matching(folder or ".", f"{files.escape(name)}.*")


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


_DAMAGE = (tf.errors.OpError, RuntimeError, ValueError, IndexError)


class CheckpointFile:
    """A checkpoint opened for reading, object-based or name-based.

    A remote one is fetched once, however many readers share what was opened.

    Attributes:
        prefix: path of the checkpoint without the suffixes of its files.
        shapes: key of everything in the files -> its shape.
    """

    def __init__(self, path: str, *, names_only: bool = False) -> None:
        """Open a checkpoint.

        Args:
            path: the checkpoint's prefix, or a folder whose newest checkpoint is meant; for the oldest
                format of TensorFlow 1 the one file itself.
            names_only: nothing will be read, so that of a remote checkpoint the index is enough.

        Raises:
            ModelError: when there is none, a part of it is missing, or it is damaged.
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
        """Whether TensorFlow 2 wrote it, with a graph of its objects."""
        return OBJECT_GRAPH in self.shapes

    def read(self, key: str) -> np.ndarray:
        """Read a value; bytes for a string.

        Raises:
            ModelError: when the file is damaged.
        """
        try:
            return self._reader.get_tensor(key)
        except _DAMAGE as error:
            raise self.damaged(error) from error

    def _copied_here(self, names_only: bool) -> str:
        """Copy a remote checkpoint, as TensorFlow opens not every kind of path; return its prefix here."""
        self._scratch = ScratchFolder()  # Goes with this object.
        paths = checkpoint_files(self.prefix)
        index = [path for path in paths if path.endswith(".index")]
        for path in (index if names_only else []) or paths:
            files.download(path, files.join(self._scratch.name, path.rpartition("/")[2]))
        return files.join(self._scratch.name, self.prefix.rpartition("/")[2])

    def damaged(self, error: Exception) -> DetectionError:
        """Return the error for a failure to read: damage, unless the system says something else."""
        if as_user_error(error):
            return unreadable(self.prefix, error)
        return ModelError(
            f"expected a readable checkpoint, found a damaged or truncated one ({first_line(error)}); copy it"
            " again",
            where=self.prefix,
        )
