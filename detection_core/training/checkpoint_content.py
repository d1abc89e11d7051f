"""What a checkpoint of the field is, by the names in it."""

from __future__ import annotations

import dataclasses

from detection_core.detectors.checkpoint_names import CheckpointNames
from detection_core.training.checkpoint_damage import OBJECT_GRAPH
from detection_core.training.checkpoint_file import CheckpointFile

DETECTOR, CLASSIFIER = "detector", "classifier"
# What `fine_tune_checkpoint_type` may say of each.
TYPES = {DETECTOR: ("detection", "full"), CLASSIFIER: ("classification",)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointContent:
    """What a checkpoint's files hold.

    Attributes:
        named: it is a name-based one of TensorFlow 1, not an object-based one of TensorFlow 2.
        of: `DETECTOR`, `CLASSIFIER` or, for something else, "".
        heads: it is a detector's and has its heads.
        variables: how many values it holds, those of optimizers included.
        first: the first of their names.
    """

    named: bool
    of: str
    heads: bool
    variables: int
    first: str

    def text(self) -> str:
        """Say what it is."""
        form = "name-based, TensorFlow 1" if self.named else "object-based, TensorFlow 2"
        what = f"a {self.of}'s checkpoint" if self.of else "a checkpoint of something else"
        if self.of == DETECTOR:
            what += " with heads" if self.heads else " without heads"
        names = f"{self.variables:,} values" + ("" if self.of else f", the first of them {self.first}")
        return f"{what} ({form}, {names})"


def checkpoint_content(file: CheckpointFile, names: CheckpointNames) -> CheckpointContent:
    """Tell what an opened checkpoint is; only its names are looked at.

    Args:
        file: the checkpoint.
        names: what checkpoints of the family call its variables.
    """
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
