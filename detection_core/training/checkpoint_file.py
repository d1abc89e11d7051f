"""The files of a checkpoint, opened with suspicion: whatever is wrong with them is one clear error."""

from __future__ import annotations

import re
import tempfile

import numpy as np
import tensorflow as tf

from detection_core import files
from detection_core.errors import ModelError

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_DAMAGE = (tf.errors.OpError, RuntimeError, ValueError, IndexError)


class CheckpointFile:
    """A checkpoint opened for reading, object-based or name-based.

    Attributes:
        prefix: path of the checkpoint without the suffixes of its files.
        shapes: key of everything in the files -> its shape.
    """

    def __init__(self, path: str) -> None:
        """Open a checkpoint.

        Args:
            path: the checkpoint's prefix, or a folder whose newest checkpoint is meant; for the oldest
                format of TensorFlow 1 the one file itself.

        Raises:
            ModelError: when there is none, a part of it is missing, or it is damaged.
        """
        self.prefix = find_prefix(path)
        readable = self._copied_here() if files.is_remote(self.prefix) else self.prefix
        try:
            self._reader = tf.train.load_checkpoint(readable)
            shapes = self._reader.get_variable_to_shape_map()
        except _DAMAGE as error:
            raise self.damaged(error) from error
        self.shapes = {key: tuple(shape) for key, shape in shapes.items()}

    def read(self, key: str) -> np.ndarray:
        """Read a value; bytes for a string.

        Raises:
            ModelError: when the file is damaged.
        """
        try:
            return self._reader.get_tensor(key)
        except _DAMAGE as error:
            raise self.damaged(error) from error

    def _copied_here(self) -> str:
        """Copy a remote checkpoint, as TensorFlow opens not every kind of path; return its prefix here."""
        self._scratch = tempfile.TemporaryDirectory(prefix="checkpoint-")  # Goes with this object.
        for path in (self.prefix, *files.glob(f"{files.escape(self.prefix)}.*")):
            if files.exists(path) and not files.is_dir(path):
                files.download(path, files.join(self._scratch.name, path.rpartition("/")[2]))
        return files.join(self._scratch.name, self.prefix.rpartition("/")[2])

    def damaged(self, error: Exception) -> ModelError:
        """What to tell of a failure to read."""
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return ModelError(
            f"expected a readable checkpoint, found a damaged or truncated one ({reason}); copy it again",
            where=self.prefix,
        )


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
        _check_shards(prefix)
        return prefix
    if prefix and files.exists(prefix) and not files.is_dir(prefix):
        return prefix
    raise ModelError(
        "expected a checkpoint, PREFIX.index with PREFIX.data-*, found none; give the prefix, as in"
        " checkpoint/ckpt-0, or the folder",
        where=path,
    )


def _latest(folder: str) -> str:
    """Prefix of the checkpoint that TensorFlow's note in a folder calls the latest, or ""."""
    note = files.join(folder, "checkpoint")
    try:
        text = files.read_text(note) if files.exists(note) else ""
    except UnicodeDecodeError:
        text = ""  # no note of TensorFlow's
    found = re.search(r'^model_checkpoint_path: "(.+)"', text)
    # The folder may have been moved since the note was written with a whole path.
    return files.join(folder, found[1].rpartition("/")[2]) if found else ""


def _check_shards(prefix: str) -> None:
    """Refuse a checkpoint whose files are not all there."""
    folder, _, name = prefix.rpartition("/")
    shard = re.compile(re.escape(name) + r"\.data-(\d{5})-of-(\d{5})")
    found = [match.groups() for match in map(shard.fullmatch, files.list_dir(folder or ".")) if match]
    count = max((int(count) for _, count in found), default=1)
    missing = sorted({f"{i:05d}" for i in range(count)} - {i for i, of in found if int(of) == count})
    if missing:
        raise ModelError(
            f"expected {count} data file{'s' * (count > 1)} beside the checkpoint's index, found"
            f" {count - len(missing)}, without {name}.data-{missing[0]}-of-{count:05d}; copy the checkpoint"
            " again, with all of its files",
            where=prefix,
        )
