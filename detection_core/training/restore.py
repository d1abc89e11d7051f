"""Fill a detector from a `fine_tune_checkpoint`, with a report of each variable, or from another detector."""

import itertools
import logging
import re
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.artifacts import detector as layout
from detection_core.config.label_map_file import load_label_map, parse_label_map
from detection_core.detectors.checkpoint_names import CheckpointNames, FineTuneOptions
from detection_core.errors import ConfigError, ModelError
from detection_core.parts.layers.layer_names import in_backbone, scoped_name
from detection_core.structures import COLOURS
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

_logger = logging.getLogger(__name__)

_KERNEL_RANK = 4


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
        ModelError: when the checkpoint is damaged, of the other format, or has no variable of this detector
            or of its backbone.
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
    backbone = [row for row in rows if in_backbone(row.name)]
    for needed in (rows, backbone or rows):
        if not any(row.outcome is Outcome.RESTORED for row in needed):
            raise _nothing_fits(checkpoint, needed, options.kind)
    for variable, value in values:
        variable.assign(widened(value, tuple(variable.shape)))
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
    outcome = Outcome.RESTORED if fits(stored, shape) else Outcome.SKIPPED_SHAPE
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


def fits(found: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether values of a shape fit a variable: of its shape, or a kernel of colours alone.

    A network for additional channels has a first convolution [h, w, 3 + N, K].
    """
    wider = len(shape) == _KERNEL_RANK and shape[2] > COLOURS
    return found == shape or (wider and found == (*shape[:2], COLOURS, shape[3]))


def widened(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return values that `fits`; the weights of additional channels are 0, so the output stays the same."""
    if value.shape == shape:
        return value
    return np.pad(value, [(0, side - own) for side, own in zip(shape, value.shape, strict=True)])


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
    if not rows:
        return ModelError(
            f"expected a checkpoint that can start this kind of detector, found one that has no {kind}"
            " variables of it in this format; use one of the same kind of detector, or train without",
            where=checkpoint.prefix,
        )
    others = [row for row in rows if row.outcome is Outcome.SKIPPED_SHAPE]
    if others and len(others) * 2 >= len(rows):
        other = others[0]
        return ModelError(
            f"expected shapes of this detector, found others in each variable, such as {other.key}"
            f" {list(other.found_shape)} instead of {list(other.shape)}; set the depth_multiplier and"
            " min_depth that the checkpoint was trained with",
            where=checkpoint.prefix,
        )
    keys = sorted(checkpoint.shapes)
    return ModelError(
        f"expected a {kind} checkpoint of this kind of detector, with {len(rows)} variables such as"
        f" {next(row.key for row in rows if row.outcome is Outcome.MISSING)}, found"
        f" none of them among {len(keys)}, the first of which is {keys[0] if keys else 'none'}; use a"
        " checkpoint of the same feature extractor, or another fine_tune_checkpoint_type",
        where=checkpoint.prefix,
    )


_NAMED = 6


def check_same_classes(detector_dir: str, label_map_path: str) -> None:
    """Refuse to continue training a detector on data with other classes or another order of classes.

    `copy_matching_weights` alone compares sizes only, so it would copy heads trained for other classes.

    Raises:
        ModelError: when the classes differ.
        ContractError: when the detector was not written by this project.
    """
    own = parse_label_map(layout.read_extra(detector_dir, layout.LABEL_MAP), detector_dir)
    target = load_label_map(label_map_path)
    if own.names == target.names:
        return
    pairs = itertools.zip_longest(own.names, target.names, fillvalue="")
    different = [
        f"class {number}: {before or 'none'} deployed, {after or 'none'} in the data"
        for number, (before, after) in enumerate(pairs, start=1)
        if before != after
    ]
    raise ModelError(
        f"expected the classes of the deployed detector in the data, found {len(different)} that differ:"
        f" {'; '.join(different[:5])}. If the data are right, set num_classes, and run once with"
        " train.warm_start empty or the folder of the deployed version. Otherwise name the classes in"
        " data.label_map",
        where=detector_dir,
    )


def copy_matching_weights(source: Any, target: Any, where: str = "") -> int:
    """Copy every weight that has the same name and shape in both.

    A detector with other classes provides all but the last layers of its heads.

    Args:
        source: detector or network to copy from.
        target: detector or network to fill.
        where: where the source was read from, for errors.

    Returns:
        The number of weights copied.

    Raises:
        ModelError: when none fits.
    """
    weights = {v.name: v for v in source.variables}
    copied = 0
    left = []
    for variable in target.variables:
        weight = weights.get(variable.name)
        if weight is not None and fits(tuple(weight.shape), tuple(variable.shape)):
            variable.assign(widened(weight.numpy(), tuple(variable.shape)))
            copied += 1
        else:
            left.append(scoped_name(variable))
    if not copied:
        raise ModelError(
            f"expected a detector of the same family to start from, found none of the {len(left)} weights in"
            " it. Warm-start from a model with the same feature extractor and depth.",
            where=where,
        )
    if left:
        more = f" and {len(left) - _NAMED:,} more" if len(left) > _NAMED else ""
        names = ", ".join(left[:_NAMED]) + more
        _logger.info("warm start: %d weights copied, %d are initialised: %s", copied, len(left), names)
    return copied
