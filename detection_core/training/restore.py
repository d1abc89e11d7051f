"""Starts a detector from a `fine_tune_checkpoint` of the field, and reports the outcome for each variable."""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.detectors.parts.layers.layer_names import scoped_name
from detection_core.errors import ConfigError, ModelError
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.checkpoint_names import CheckpointNames, FineTuneOptions
from detection_core.training.named_checkpoint import NamedCheckpoint
from detection_core.training.object_checkpoint import VARIABLE_SUFFIX, ObjectCheckpoint


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

    def counts(self) -> dict[str, int]:
        """The numbers of variables restored, skipped, missing, and of the checkpoint's own unused ones."""
        counts = {outcome.name.lower(): self.count(outcome) for outcome in Outcome}
        return counts | {"unused": len(self.unused)}

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


def restore_fine_tune_checkpoint(
    model: Any, names: CheckpointNames, options: FineTuneOptions, file: CheckpointFile
) -> RestoreReport:
    """Fill a detector's variables from a checkpoint of the field.

    Nothing is changed unless the whole checkpoint could be read. Steps and optimizer slots stay behind.

    Args:
        model: a detector of the family that the names are of, its networks not rewritten.
        names: what checkpoints call its variables.
        options: what to take of it.
        file: the checkpoint.

    Returns:
        What came of each variable.

    Raises:
        ConfigError: for an unknown kind.
        ModelError: when the checkpoint is damaged, of the other format, or has not one variable of this
            detector.
    """
    kinds = names.naming(named=options.named).kinds
    if options.kind not in kinds:
        raise ConfigError(
            f"expected {', '.join(kinds)}, found {options.kind!r}; correct the type",
            where="train_config.fine_tune_checkpoint_type",
        )
    checkpoint = NamedCheckpoint(file) if options.named else ObjectCheckpoint(file)
    rows: list[RestoredVariable] = []
    known: set[str] = set()
    values: list[tuple[tf.Variable, np.ndarray]] = []
    for variable, paths in kinds[options.kind](model, options):
        keys = [key for key in map(checkpoint.find, paths) if key is not None]
        key = keys[0] if keys else None
        known.update(keys)
        rows.append(_row(checkpoint, variable, paths[0], key))
        if key is not None and rows[-1].outcome is Outcome.RESTORED:
            values.append((variable, checkpoint.read(key)))
    if not values:
        raise _nothing_fits(checkpoint, rows, options.kind)
    for variable, value in values:
        variable.assign(value)
    own = (key for key in checkpoint.shapes if _is_model_variable(key, names, options))
    unused = sorted(key for key in own if key not in known)
    return RestoreReport(
        prefix=checkpoint.prefix, kind=options.kind, variables=tuple(rows), unused=tuple(unused)
    )


def _row(
    checkpoint: ObjectCheckpoint | NamedCheckpoint, variable: tf.Variable, path: str, key: str | None
) -> RestoredVariable:
    shape = tuple(variable.shape)
    stored = checkpoint.shapes[key] if key is not None else ()
    outcome = Outcome.RESTORED if stored == shape else Outcome.SKIPPED_SHAPE
    suffix = VARIABLE_SUFFIX if isinstance(checkpoint, ObjectCheckpoint) else ""
    return RestoredVariable(
        name=scoped_name(variable),
        key=key or f"{path}{suffix}",
        outcome=Outcome.MISSING if key is None else outcome,
        shape=shape,
        found_shape=stored,
    )


# Ends of names that TensorFlow 1 gave to counters, optimizer slots and moving averages.
_NO_MODEL_VARIABLE = re.compile(
    r"(.*/)?(global_step|beta[12]_power|Momentum|RMSProp(_1)?|Adam(_1)?|ExponentialMovingAverage)"
)


def _is_model_variable(key: str, names: CheckpointNames, options: FineTuneOptions) -> bool:
    """Whether a key is of a model's variable, rather than of an optimizer's slot or a counter."""
    if options.named:
        return not _NO_MODEL_VARIABLE.fullmatch(key)
    of_model = key.startswith(names.object_based.model)
    return of_model and key.endswith(VARIABLE_SUFFIX) and "/.OPTIMIZER_SLOT/" not in key


def _nothing_fits(
    checkpoint: ObjectCheckpoint | NamedCheckpoint, rows: list[RestoredVariable], kind: str
) -> ModelError:
    other = next((row for row in rows if row.outcome is Outcome.SKIPPED_SHAPE), None)
    if other is not None:
        return ModelError(
            f"expected shapes of this detector, found others in each variable, such as {other.key}"
            f" {list(other.found_shape)} instead of {list(other.shape)}; set the depth_multiplier and"
            " min_depth that the checkpoint was trained with",
            where=checkpoint.prefix,
        )
    keys = sorted(checkpoint.shapes)
    return ModelError(
        f"expected a {kind} checkpoint of this kind of detector, with variables such as {rows[0].key}, found"
        f" none of them among {len(keys)}, the first of which is {keys[0] if keys else 'none'}; use a"
        " checkpoint of the same feature extractor, or another fine_tune_checkpoint_type",
        where=checkpoint.prefix,
    )
