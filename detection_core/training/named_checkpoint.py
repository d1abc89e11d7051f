"""Reads the variables of name-based TensorFlow 1 checkpoints."""

from __future__ import annotations

from detection_core.errors import ModelError
from detection_core.training.checkpoint_file import OBJECT_GRAPH, CheckpointFile


class NamedCheckpoint(CheckpointFile):
    """A checkpoint of `tf.train.Saver` opened for reading.

    Attributes:
        prefix: path of the checkpoint without the suffix of its files.
        shapes: name of every variable in the file -> its shape.
    """

    def __init__(self, path: str) -> None:
        """Open a checkpoint.

        Args:
            path: the checkpoint's prefix, or a folder whose newest checkpoint is meant.

        Raises:
            ModelError: when there is none, it is damaged, or it is object-based.
        """
        super().__init__(path)
        if OBJECT_GRAPH in self.shapes:
            raise ModelError(
                "expected a name-based TensorFlow 1 checkpoint, found an object-based one of TensorFlow 2;"
                " set train_config.fine_tune_checkpoint_version: V2",
                where=self.prefix,
            )

    def find(self, name: str) -> str | None:
        """Return the name itself where the checkpoint has it."""
        return name if name in self.shapes else None
