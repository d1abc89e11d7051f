"""Reads the variables of object-based TensorFlow 2 checkpoints by the path of their objects."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from detection_core.errors import ModelError

_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VARIABLE = "VARIABLE_VALUE"


class ObjectCheckpoint:
    """A checkpoint opened for reading.

    Attributes:
        prefix: path of the checkpoint without the suffix of its files.
        shapes: key of every variable in the file -> its shape.
    """

    def __init__(self, path: str) -> None:
        """Open a checkpoint.

        Args:
            path: the checkpoint's prefix, or a folder whose newest checkpoint is meant.

        Raises:
            ModelError: when there is none, it is damaged, or it is not object-based.
        """
        self.prefix = _find_prefix(path)
        try:
            self._reader = tf.train.load_checkpoint(self.prefix)
            shapes = self._reader.get_variable_to_shape_map()
            graph_text = self._reader.get_tensor(_GRAPH_KEY) if _GRAPH_KEY in shapes else None
        except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
            raise self._damaged(error) from error
        if graph_text is None:
            raise ModelError(
                "expected an object-based TensorFlow 2 checkpoint, found one without an object graph, such as"
                f" TensorFlow 1 writes, with {len(shapes)} variables; use a checkpoint of TensorFlow 2's"
                " model zoo",
                where=self.prefix,
            )
        self._nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph_text).nodes
        self.shapes = {key: tuple(shape) for key, shape in shapes.items() if key != _GRAPH_KEY}

    def find(self, path: str) -> str | None:
        """Look a variable up by the path of its object.

        A checkpoint stores a variable that several paths lead to under one of them only, so that the path is
        followed through the object graph where no key is equal to it.

        Args:
            path: names of objects from the root on, joined with "/"; the last is the variable's.

        Returns:
            The variable's key in the file, or None.
        """
        node = self._nodes[0]
        for name in path.split("/"):
            child = next((child for child in node.children if child.local_name == name), None)
            if child is None:
                return None
            node = self._nodes[child.node_id]
        keys = (item.checkpoint_key for item in node.attributes if item.name == _VARIABLE)
        return next(keys, None)

    def read(self, key: str) -> np.ndarray:
        """Read a variable's value.

        Raises:
            ModelError: when the file is damaged.
        """
        try:
            return self._reader.get_tensor(key)
        except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> ModelError:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return ModelError(
            f"expected a readable checkpoint, found a damaged or truncated one ({reason}); copy it again",
            where=self.prefix,
        )


def _find_prefix(path: str) -> str:
    prefix = tf.train.latest_checkpoint(path) if tf.io.gfile.isdir(path) else path
    prefix = (prefix or "").removesuffix(".index")
    if not prefix or not tf.io.gfile.exists(f"{prefix}.index"):
        raise ModelError(
            "expected a checkpoint, PREFIX.index with PREFIX.data-*, found none; give the prefix, as in"
            " checkpoint/ckpt-0, or the folder",
            where=path,
        )
    return prefix
