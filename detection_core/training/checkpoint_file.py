"""The files of a checkpoint, checked when opened: any damage raises one clear error."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from detection_core.artifacts.checkpoint_index import check_index
from detection_core.errors import DetectionError, ModelError, as_user_error
from detection_core.model_use import model_in_use
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detection_core.training.checkpoint_damage import OBJECT_GRAPH, first_line, unreadable
from detection_core.training.checkpoint_prefix import checkpoint_files, find_prefix

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
