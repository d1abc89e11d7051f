"""Reads the variables of name-based TensorFlow 1 checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from detection_core.detectors.checkpoint_names import StoredNames
from detection_core.errors import ModelError
from detection_core.training.checkpoint_file import CheckpointFile


class NamedCheckpoint:
    """The variables of a checkpoint of `tf.train.Saver`.

    Attributes:
        prefix: path of the checkpoint without the suffix of its files.
        shapes: name of every variable in the file -> its shape.
    """

    def __init__(self, file: CheckpointFile, stored_names: StoredNames | None = None) -> None:
        """Take an opened checkpoint.

        Args:
            file: the checkpoint.
            stored_names: finds those of its names that stand for another one; None: each stands for itself.

        Raises:
            ModelError: when it is object-based.
        """
        self.prefix, self.shapes, self.read = file.prefix, file.shapes, file.read
        self._stored: Mapping[str, Collection[str]] = stored_names(self.shapes) if stored_names else {}
        if file.is_object_based:
            raise ModelError(
                "expected a name-based TensorFlow 1 checkpoint, found an object-based one of TensorFlow 2;"
                " set train_config.fine_tune_checkpoint_version: V2",
                where=self.prefix,
            )

    def find(self, name: str) -> str | None:
        """Return what the checkpoint calls a variable, mostly the name itself; None where it lacks it."""
        candidates = self._candidates(name)
        return next(iter(candidates)) if len(candidates) == 1 else None

    def candidates(self, name: str) -> tuple[str, ...]:
        """Return the names of which any could be the variable, sorted; empty where one or none is."""
        found = self._candidates(name)
        return tuple(sorted(found)) if len(found) > 1 else ()

    def _candidates(self, name: str) -> Collection[str]:
        if name in self._stored:
            return self._stored[name]
        return (name,) if name in self.shapes else ()
