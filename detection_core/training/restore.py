"""Starts a detector from a `fine_tune_checkpoint` of the field, and says what came of each variable."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from detection_core.errors import ConfigError, ModelError
from detection_core.models.base import DetectionModel
from detection_core.models.checkpoint_keys.backbones import CLASSIFICATION_PREFIXES
from detection_core.models.checkpoint_keys.object_keys import object_keys
from detection_core.models.checkpoint_keys.place import VARIABLE_SUFFIX
from detection_core.training.object_checkpoint import ObjectCheckpoint


class Outcome(enum.Enum):
    """What came of a variable of the detector."""

    RESTORED = "restored"
    SKIPPED_SHAPE = "skipped: another shape"
    MISSING = "missing in the checkpoint"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RestoredVariable:
    """A row of the report.

    Attributes:
        name: of the detector's variable.
        key: what the checkpoint should call it.
        outcome: what came of it.
        shape: of the detector's variable.
        found_shape: of the checkpoint's; empty where it has none.
    """

    name: str
    key: str
    outcome: Outcome
    shape: tuple[int, ...]
    found_shape: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class RestoreReport:
    """What a checkpoint gave to a detector.

    Attributes:
        prefix: path of the checkpoint.
        kind: what was restored: "classification", "detection" or "full".
        variables: those of the detector that the kind asks for.
        unused: keys of model variables in the checkpoint that the detector has no use for.
    """

    prefix: str
    kind: str
    variables: tuple[RestoredVariable, ...]
    unused: tuple[str, ...]

    def count(self, outcome: Outcome) -> int:
        """Number of variables with that outcome."""
        return sum(row.outcome is outcome for row in self.variables)

    def table(self) -> str:
        """The counts, then each variable that was not restored, a line each."""
        counts = ", ".join(f"{self.count(outcome)} {outcome.value}" for outcome in Outcome)
        lines = [f"{self.kind} checkpoint {self.prefix}: {counts}, {len(self.unused)} of its own unused"]
        for row in self.variables:
            if row.outcome is not Outcome.RESTORED:
                found = f", found {list(row.found_shape)}" if row.outcome is Outcome.SKIPPED_SHAPE else ""
                lines.append(f"  {row.outcome.value}: {row.name} {list(row.shape)}{found} ({row.key})")
        lines.extend(f"  unused: {key}" for key in self.unused)
        return "\n".join(lines)


def _classification_path(path: str) -> str | None:
    """Where a classifier's checkpoint keeps what the detector's keeps in its backbone."""
    for prefix in CLASSIFICATION_PREFIXES:
        if path.startswith(f"model/{prefix}/"):
            return path.replace(f"model/{prefix}/", "feature_extractor/", 1)
    return None


# Kind of checkpoint -> path of a variable in it, or None for a variable that keeps its first value.
KINDS: dict[str, Callable[[str], str | None]] = {
    "classification": _classification_path,
    "detection": lambda path: path if path.startswith("model/_feature_extractor/") else None,
    "full": lambda path: path,
}


def restore_fine_tune_checkpoint(model: DetectionModel, path: str, kind: str) -> RestoreReport:
    """Fill a detector's variables from an object-based checkpoint.

    Nothing is changed unless the whole checkpoint could be read.

    Args:
        model: as a builder made it, its network not rewritten.
        path: the checkpoint's prefix, or its folder.
        kind: `fine_tune_checkpoint_type`: "classification" for a backbone, "detection" for a detector's
            backbone and pyramid, "full" for its heads too.

    Returns:
        What came of each variable.

    Raises:
        ConfigError: for an unknown kind.
        ModelError: when the checkpoint is missing, damaged, or has not one variable of this detector.
    """
    if kind not in KINDS:
        raise ConfigError(
            f"expected {', '.join(KINDS)}, found {kind!r}; correct the type",
            where="train_config.fine_tune_checkpoint_type",
        )
    checkpoint = ObjectCheckpoint(path)
    rows: list[RestoredVariable] = []
    values: list[tuple[tf.Variable, np.ndarray]] = []
    used: set[str] = set()
    for variable, wanted in _wanted(model, kind):
        key = next((key for key in map(checkpoint.find, wanted) if key is not None), None)
        rows.append(_row(checkpoint, variable, wanted[0], key))
        if key is not None:
            used.add(key)
        if key is not None and rows[-1].outcome is Outcome.RESTORED:
            values.append((variable, checkpoint.read(key)))
    if not values:
        _refuse(checkpoint, rows, kind)
    for variable, value in values:
        variable.assign(value)
    unused = sorted(key for key in checkpoint.shapes if _is_model_variable(key) and key not in used)
    return RestoreReport(prefix=checkpoint.prefix, kind=kind, variables=tuple(rows), unused=tuple(unused))


def _wanted(model: DetectionModel, kind: str) -> list[tuple[tf.Variable, list[str]]]:
    """The variables that the kind asks for, each with the paths that may lead to it."""
    found: dict[int, tuple[tf.Variable, list[str]]] = {}
    for key, variable in object_keys(model.network).items():
        path = KINDS[kind](key.removesuffix(VARIABLE_SUFFIX))
        if path is not None:
            found.setdefault(id(variable), (variable, []))[1].append(path)
    return list(found.values())


def _row(checkpoint: ObjectCheckpoint, variable: tf.Variable, path: str, key: str | None) -> RestoredVariable:
    shape = tuple(variable.shape)
    found = checkpoint.shapes[key] if key is not None else ()
    outcome = Outcome.RESTORED if found == shape else Outcome.SKIPPED_SHAPE
    return RestoredVariable(
        name=variable.name.split(":")[0],
        key=key or f"{path}{VARIABLE_SUFFIX}",
        outcome=Outcome.MISSING if key is None else outcome,
        shape=shape,
        found_shape=found,
    )


def _is_model_variable(key: str) -> bool:
    """Whether a key is of a model's variable, rather than of an optimizer's slot or a counter."""
    of_model = key.startswith(("model/", "feature_extractor/"))
    return of_model and key.endswith(VARIABLE_SUFFIX) and "/.OPTIMIZER_SLOT/" not in key


def _refuse(checkpoint: ObjectCheckpoint, rows: list[RestoredVariable], kind: str) -> None:
    keys = sorted(checkpoint.shapes)
    raise ModelError(
        f"expected a {kind} checkpoint of this kind of detector, with variables such as {rows[0].key}, found"
        f" none of them among {len(keys)}, the first of which is {keys[0] if keys else 'none'}; use a"
        " checkpoint of the same feature extractor, or another fine_tune_checkpoint_type",
        where=checkpoint.prefix,
    )
