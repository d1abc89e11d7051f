"""Reads the variables of object-based TensorFlow 2 checkpoints by the path of their objects."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import trackable_object_graph_pb2

from detection_core.errors import ModelError
from detection_core.training.checkpoint_damage import OBJECT_GRAPH
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.restore_report import OPTIMIZER_SLOT

_VARIABLE = "VARIABLE_VALUE"
VARIABLE_SUFFIX = f"/.ATTRIBUTES/{_VARIABLE}"
"""End of the key of every variable."""


def escaped_child(name: str) -> str:
    """Return an object's name as one part of a path, whatever it has of slashes and dots.

    As TensorFlow's keys do, `.S` stands for a slash there, and two dots for one.
    """
    return name.replace(".", "..").replace("/", ".S")


class ObjectCheckpoint:
    """The variables of an object-based checkpoint.

    Attributes:
        prefix: path of the checkpoint without the suffix of its files.
        shapes: key of every variable in the file -> its shape.
    """

    def __init__(self, file: CheckpointFile) -> None:
        """Take an opened checkpoint.

        Raises:
            ModelError: when it is damaged, or not object-based.
        """
        self.prefix, self.read = file.prefix, file.read
        self.shapes = {key: shape for key, shape in file.shapes.items() if key != OBJECT_GRAPH}
        if not file.is_object_based:
            raise ModelError(
                "expected an object-based TensorFlow 2 checkpoint, found one without an object graph, such as"
                f" TensorFlow 1 writes, with {len(self.shapes)} variables; set"
                " train_config.fine_tune_checkpoint_version: V1, or use a checkpoint of TensorFlow 2's model"
                " zoo",
                where=self.prefix,
            )
        try:
            graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(self.read(OBJECT_GRAPH))
        except DecodeError as error:
            raise file.damaged(error) from error
        self._nodes = graph.nodes
        self._slots = {
            (slot.original_variable_node_id, slot.slot_name): slot.slot_variable_node_id
            for node in graph.nodes
            for slot in node.slot_variables
        }

    def find(self, path: str) -> str | None:
        """Look a variable up by the path of its object.

        A checkpoint stores a variable that several paths lead to under one of them only, so that the path is
        followed through the object graph where no key is equal to it.

        Args:
            path: escaped names of objects from the root on, joined with "/"; the last is the variable's. With
                `OPTIMIZER_SLOT` and a slot's name behind it what an optimizer keeps of the variable is meant,
                whichever object the optimizer is.

        Returns:
            The variable's key in the file, or None.
        """
        variable, _, slot = path.partition(OPTIMIZER_SLOT)
        node = self._node(variable)
        if slot and node is not None:
            node = self._slots.get((node, slot))
        if node is None:
            return None
        keys = (item.checkpoint_key for item in self._nodes[node].attributes if item.name == _VARIABLE)
        return next(keys, None)

    def candidates(self, path: str) -> tuple[str, ...]:
        """Return (): a path leads to one variable."""
        return ()

    def _node(self, path: str) -> int | None:
        """Follow a path; the number of the object that it leads to, or None."""
        number = 0
        for name in path.split("/"):
            children = self._nodes[number].children
            child = next((child for child in children if escaped_child(child.local_name) == name), None)
            if child is None:
                return None
            number = child.node_id
        return number
