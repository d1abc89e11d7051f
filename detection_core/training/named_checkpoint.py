"""Reads the variables of name-based TensorFlow 1 checkpoints."""

from __future__ import annotations

from detection_core.errors import ModelError
from detection_core.training.checkpoint_file import CheckpointFile


class NamedCheckpoint:
    """The variables of a checkpoint of `tf.train.Saver`.

    Attributes:
        prefix: path of the checkpoint without the suffix of its files.
        shapes: name of every variable in the file -> its shape.
    """

    def __init__(self, file: CheckpointFile) -> None:
        """Take an opened checkpoint.

        Raises:
            ModelError: when it is object-based.
        """
        self.prefix, self.shapes, self.read = file.prefix, file.shapes, file.read
        if file.is_object_based:
            raise ModelError(
                "expected a name-based TensorFlow 1 checkpoint, found an object-based one of TensorFlow 2;"
                " set train_config.fine_tune_checkpoint_version: V2",
                where=self.prefix,
            )

    def find(self, name: str) -> str | None:
        """Return the name itself where the checkpoint has it."""
        return name if name in self.shapes else None
