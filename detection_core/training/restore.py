"""Restore a detector from a `fine_tune_checkpoint`, and report the outcome for each variable."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.detectors.checkpoint_names import CheckpointNames, FineTuneOptions
from detection_core.errors import ConfigError, ModelError
from detection_core.parts.layers.layer_names import scoped_name
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.checkpoint_variables import (
    OPTIMIZER_SLOT,
    VARIABLE_SUFFIX,
    NamedCheckpoint,
    ObjectCheckpoint,
    Outcome,
    RestoredVariable,
    RestoreReport,
    is_averaged,
)


def restore_fine_tune_checkpoint(
    model: Any, names: CheckpointNames, options: FineTuneOptions, file: CheckpointFile
) -> RestoreReport:
    """Fill a detector's variables from a `fine_tune_checkpoint`.

    Nothing changes unless the whole checkpoint could be read. Steps and optimizer slots are not restored.

    The model is of the same family as `names` and not yet rewritten for quantization.

    Returns:
        The outcome for each variable.

    Raises:
        ConfigError: for an unknown kind.
        ModelError: when the checkpoint is damaged, of the other format, or has no variable of this detector.
    """
    naming = names.naming(named=options.named)
    kinds = naming.kinds
    if options.kind not in kinds:
        raise ConfigError(
            f"expected {', '.join(kinds)}, found {options.kind!r}; correct the type",
            where="train_config.fine_tune_checkpoint_type",
        )
    checkpoint = NamedCheckpoint(file, naming.stored_names) if options.named else ObjectCheckpoint(file)
    rows: list[RestoredVariable] = []
    known: set[str] = set()
    values: list[tuple[tf.Variable, np.ndarray]] = []
    for variable, paths in kinds[options.kind](model, options):
        keys = [key for key in map(checkpoint.find, paths) if key is not None]
        key = keys[0] if keys else None
        known.update(keys)
        rows.append(_row(checkpoint, variable, paths, key))
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
    checkpoint: ObjectCheckpoint | NamedCheckpoint, variable: tf.Variable, paths: list[str], key: str | None
) -> RestoredVariable:
    shape = tuple(variable.shape)
    stored = checkpoint.shapes[key] if key is not None else ()
    outcome = Outcome.RESTORED if stored == shape else Outcome.SKIPPED_SHAPE
    suffix = VARIABLE_SUFFIX if isinstance(checkpoint, ObjectCheckpoint) else ""
    plain = next((path for path in paths if not is_averaged(path)), paths[0])
    return RestoredVariable(
        name=scoped_name(variable),
        key=key or f"{plain}{suffix}",
        outcome=Outcome.MISSING if key is None else outcome,
        shape=shape,
        found_shape=stored,
        candidates=checkpoint.candidates(plain) if key is None else (),
    )


# Suffixes of TensorFlow 1's counters, optimizer slots and moving averages.
_NO_MODEL_VARIABLE = re.compile(
    r"(.*/)?(global_step|beta[12]_power|Momentum|RMSProp(_1)?|Adam(_1)?|ExponentialMovingAverage)"
)


def _is_model_variable(key: str, names: CheckpointNames, options: FineTuneOptions) -> bool:
    """Return whether a key is a model variable's, not an optimizer slot's or a counter's."""
    if options.named:
        return not _NO_MODEL_VARIABLE.fullmatch(key)
    of_model = key.startswith(names.object_based.model)
    return of_model and key.endswith(VARIABLE_SUFFIX) and OPTIMIZER_SLOT not in key


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
