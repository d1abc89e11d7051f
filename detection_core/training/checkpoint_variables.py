"""Variables in checkpoints of TensorFlow 2 (object-based) and 1 (name-based), and reports of restoring."""

import collections
import dataclasses
import enum
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import trackable_object_graph_pb2

from detection_core.detectors.checkpoint_names import CheckpointNames, StoredNames
from detection_core.errors import ModelError
from detection_core.training.checkpoint_file import OBJECT_GRAPH, CheckpointFile

OPTIMIZER_SLOT = "/.OPTIMIZER_SLOT/"
"""Separates a variable's path from its optimizer slot in keys of object-based checkpoints."""
AVERAGED = "/ExponentialMovingAverage"
"""Suffix of moving averages in name-based checkpoints."""
_IN_SUMMARY, _PARTS_IN_SUMMARY, _UNUSED_IN_TABLE = 10, 20, 1000


def is_averaged(key: str) -> bool:
    """Return whether a key is that of a moving average."""
    return key.endswith(AVERAGED) or OPTIMIZER_SLOT in key


class Outcome(enum.Enum):
    """The outcome for a variable of the detector."""

    RESTORED = "restored"
    SKIPPED_SHAPE = "skipped: another shape"
    MISSING = "missing in the checkpoint"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RestoredVariable:
    """A row of the report.

    Attributes:
        name: of the detector's variable.
        key: its actual or expected key in the checkpoint.
        outcome: of the restore.
        shape: of the detector's variable.
        found_shape: in the checkpoint; empty where it is missing.
        candidates: keys that could each be the missing variable; none was used.
    """

    name: str
    key: str
    outcome: Outcome
    shape: tuple[int, ...]
    found_shape: tuple[int, ...] = ()
    candidates: tuple[str, ...] = ()

    @property
    def averaged(self) -> bool:
        """Whether a moving average was restored, not the trained value."""
        return self.outcome is Outcome.RESTORED and is_averaged(self.key)

    def line(self) -> str:
        """Return the row as text."""
        if self.outcome is Outcome.RESTORED:
            value = "moving average" if self.averaged else "plain value"
            return f"{self.outcome.value}, {value}: {self.name} {list(self.shape)} ({self.key})"
        found = f", found {list(self.found_shape)}" if self.outcome is Outcome.SKIPPED_SHAPE else ""
        several = f"; it could be any of {', '.join(self.candidates)}" if self.candidates else ""
        return f"{self.outcome.value}: {self.name} {list(self.shape)}{found} ({self.key}{several})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RestoreReport:
    """The report of restoring a detector from a checkpoint.

    Attributes:
        prefix: path of the checkpoint.
        kind: what was restored: "classification", "detection" or "full".
        variables: the detector's variables of that kind.
        unused: keys of model variables in the checkpoint that the detector does not use.
    """

    prefix: str
    kind: str
    variables: tuple[RestoredVariable, ...]
    unused: tuple[str, ...]

    def count(self, outcome: Outcome) -> int:
        """Return the number of variables with an outcome."""
        return sum(row.outcome is outcome for row in self.variables)

    def counts(self) -> dict[str, int]:
        """The numbers of restored, skipped and missing variables, and of the checkpoint's unused ones."""
        counts = {outcome.name.lower(): self.count(outcome) for outcome in Outcome}
        return counts | {"unused": len(self.unused)}

    @property
    def averaged(self) -> int:
        """Number of variables restored from their moving average."""
        return sum(row.averaged for row in self.variables)

    def summary(self) -> str:
        """The counts, those of each part of the checkpoint, and the first variables not restored.

        The length is bounded for every detector and checkpoint.
        """
        left = [row.line() for row in self.variables if row.outcome is not Outcome.RESTORED]
        lines = [
            self._counts(),
            *_first(list(self._parts()), _PARTS_IN_SUMMARY, "parts"),
            *_first(left, _IN_SUMMARY, "variables that were not restored"),
            *_first([f"unused: {key}" for key in self.unused], _IN_SUMMARY, "unused"),
        ]
        return "\n".join(lines)

    def table(self) -> str:
        """The counts, then one line for each variable: not restored, restored, unused.

        At most 1,000 unused variables are named.
        """
        left = [row for row in self.variables if row.outcome is not Outcome.RESTORED]
        restored = [row for row in self.variables if row.outcome is Outcome.RESTORED]
        lines = [self._counts(), *(f"  {row.line()}" for row in (*left, *restored))]
        unused = [f"unused: {key}" for key in self.unused]
        return "\n".join([*lines, *_first(unused, _UNUSED_IN_TABLE, "unused")])

    def _counts(self) -> str:
        counts = ", ".join(f"{self.count(outcome)} {outcome.value}" for outcome in Outcome)
        values = f"{self.averaged} moving averages and {self.count(Outcome.RESTORED) - self.averaged} plain"
        return (
            f"{self.kind} checkpoint {self.prefix}: {counts}, {len(self.unused)} of its variables unused;"
            f" what was restored are {values} values"
        )

    def _parts(self) -> Iterator[str]:
        """Describe the outcome for each part of the checkpoint, with the key of its first variable."""
        parts: dict[str, list[RestoredVariable]] = collections.defaultdict(list)
        # The leading scopes that all keys share are left out.
        scopes = zip(*(row.key.split("/")[:-1] for row in self.variables), strict=False)
        common = len(list(itertools.takewhile(lambda each: len(set(each)) == 1, scopes)))
        for row in self.variables:
            parts["/".join(row.key.split("/")[: common + 1])].append(row)
        for part, rows in parts.items():
            restored = [row for row in rows if row.outcome is Outcome.RESTORED]
            averaged = sum(row.averaged for row in rows)
            first = f", such as {restored[0].key}" if restored else ""
            yield (
                f"{part}: {len(restored)} of {len(rows)} restored ({averaged} moving averages,"
                f" {len(restored) - averaged} plain){first}"
            )


def _first(lines: Sequence[str], count: int, what: str) -> list[str]:
    more = [f"  and {len(lines) - count:,} more {what}"] if len(lines) > count else []
    return [*(f"  {line}" for line in lines[:count]), *more]


_VARIABLE = "VARIABLE_VALUE"
VARIABLE_SUFFIX = f"/.ATTRIBUTES/{_VARIABLE}"
"""Suffix of every variable's key."""


def escaped_child(name: str) -> str:
    """Escape an object's name for use in a checkpoint path.

    As in TensorFlow's keys, `.S` stands for a slash and two dots for one.
    """
    return name.replace(".", "..").replace("/", ".S")


class ObjectCheckpoint:
    """The variables of an object-based checkpoint.

    Attributes:
        prefix: path of the checkpoint without the suffix of its files.
        shapes: key of every variable in the file -> its shape.
    """

    def __init__(self, file: CheckpointFile) -> None:
        """Read the object graph of an opened checkpoint; ModelError when damaged or not object-based."""
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
        """Find a variable by the path of its object.

        A checkpoint stores a variable with several paths under one of them only. So where no key equals the
        path, the path is followed through the object graph.

        Args:
            path: escaped object names from the root on, joined with "/"; the last is the variable's. With
                `OPTIMIZER_SLOT` and a slot's name appended, it means the variable's optimizer slot, whichever
                object the optimizer is.

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
        """Return (): a path leads to one variable only."""
        return ()

    def _node(self, path: str) -> int | None:
        number = 0
        for name in path.split("/"):
            children = self._nodes[number].children
            child = next((child for child in children if escaped_child(child.local_name) == name), None)
            if child is None:
                return None
            number = child.node_id
        return number


class NamedCheckpoint:
    """The variables of a checkpoint of `tf.train.Saver`.

    Attributes:
        prefix: path of the checkpoint without the suffix of its files.
        shapes: name of every variable in the file -> its shape.
    """

    def __init__(self, file: CheckpointFile, stored_names: StoredNames | None = None) -> None:
        """Read the names in an opened checkpoint.

        `stored_names` maps stored names to other names; None: every name is used as it is.

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
        """Return the stored name of a variable, usually the name itself; None where it is missing."""
        candidates = self._candidates(name)
        return next(iter(candidates)) if len(candidates) == 1 else None

    def candidates(self, name: str) -> tuple[str, ...]:
        """Return the names that could be the variable, sorted; empty unless it is ambiguous."""
        found = self._candidates(name)
        return tuple(sorted(found)) if len(found) > 1 else ()

    def _candidates(self, name: str) -> Collection[str]:
        if name in self._stored:
            return self._stored[name]
        return (name,) if name in self.shapes else ()


DETECTOR, CLASSIFIER = "detector", "classifier"
# Values of `fine_tune_checkpoint_type` that fit each.
TYPES = {DETECTOR: ("detection", "full"), CLASSIFIER: ("classification",)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointContent:
    """The content of a checkpoint's files.

    Attributes:
        named: whether it is name-based (TensorFlow 1) and not object-based (TensorFlow 2).
        of: `DETECTOR`, `CLASSIFIER`, or "" for anything else.
        heads: whether it is a detector's and has its heads.
        variables: number of values, those of optimizers included.
        first: the first of their names.
    """

    named: bool
    of: str
    heads: bool
    variables: int
    first: str

    def text(self) -> str:
        """Describe the content in words."""
        form = "name-based, TensorFlow 1" if self.named else "object-based, TensorFlow 2"
        what = f"a {self.of}'s checkpoint" if self.of else "a checkpoint of something else"
        if self.of == DETECTOR:
            what += " with heads" if self.heads else " without heads"
        names = f"{self.variables:,} values" + ("" if self.of else f", the first of them {self.first}")
        return f"{what} ({form}, {names})"


def checkpoint_content(file: CheckpointFile, names: CheckpointNames) -> CheckpointContent:
    """Determine the content of an opened checkpoint from its names alone."""
    keys = sorted(key for key in file.shapes if key != OBJECT_GRAPH)
    named = not file.is_object_based
    naming = names.naming(named=named)
    of = ""
    if any(key.startswith(naming.detector) for key in keys):
        of = DETECTOR
    elif any(key.startswith(naming.classifier) for key in keys):
        of = CLASSIFIER
    return CheckpointContent(
        named=named,
        of=of,
        heads=of == DETECTOR and any(part in key for key in keys for part in naming.heads),
        variables=len(keys),
        first=keys[0] if keys else "none",
    )
