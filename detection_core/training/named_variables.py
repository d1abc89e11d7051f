"""Restore variables of any model from a name-based checkpoint."""

import logging
from collections.abc import Mapping, Sequence
from typing import overload

import tensorflow as tf

from detection_core.parts.layers.layer_names import scoped_name
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.checkpoint_variables import NamedCheckpoint

_logger = logging.getLogger(__name__)
GLOBAL_STEP = "global_step"

Variables = Mapping[str, tf.Variable] | Sequence[tf.Variable]


@overload
def variables_in_checkpoint(
    variables: Mapping[str, tf.Variable], checkpoint: str, *, include_global_step: bool = True
) -> dict[str, tf.Variable]: ...


@overload
def variables_in_checkpoint(
    variables: Sequence[tf.Variable], checkpoint: str, *, include_global_step: bool = True
) -> list[tf.Variable]: ...


def variables_in_checkpoint(
    variables: Variables, checkpoint: str, *, include_global_step: bool = True
) -> dict[str, tf.Variable] | list[tf.Variable]:
    """Return the variables that a TensorFlow 1 checkpoint contains with the same shape.

    Missing variables and those of another shape are left out and logged. It behaves as the Object Detection
    API's `get_variables_available_in_checkpoint`.

    Args:
        variables: a mapping of checkpoint names to variables, or a list of variables that are looked up by
            their own names.
        checkpoint: prefix of its files.
        include_global_step: False leaves out the checkpoint's `global_step`.

    Returns:
        A mapping for a mapping, a list for a list.

    Raises:
        ModelError: when the checkpoint is missing, damaged or object-based.
        TypeError: for neither of the two forms.
    """
    matching = _matching(
        _by_name(variables), NamedCheckpoint(CheckpointFile(checkpoint)), include_global_step
    )
    return matching if isinstance(variables, Mapping) else list(matching.values())


def restore_variables(
    variables: Variables, checkpoint: str, *, include_global_step: bool = True
) -> list[str]:
    """Restore variables from a TensorFlow 1 checkpoint where it has them in this shape; return their names.

    The variables are as in `variables_in_checkpoint`. Without include_global_step, the step stays unchanged.

    Raises:
        ModelError: when the checkpoint is missing, damaged or object-based.
    """
    named, reader = _by_name(variables), NamedCheckpoint(CheckpointFile(checkpoint))
    matching = _matching(named, reader, include_global_step)
    values = {name: reader.read(name) for name in matching}
    for name, variable in matching.items():
        variable.assign(tf.cast(values[name], variable.dtype))
    return sorted(matching)


def _by_name(variables: Variables) -> Mapping[str, tf.Variable]:
    if isinstance(variables, Mapping):
        return variables
    if not isinstance(variables, list | tuple):
        raise TypeError(f"expected a mapping or a list of variables, found {type(variables).__name__}")
    return {scoped_name(v): v for v in variables}


def _matching(
    named: Mapping[str, tf.Variable], checkpoint: NamedCheckpoint, include_global_step: bool
) -> dict[str, tf.Variable]:
    """Return the variables that the checkpoint can fill, and log the others."""
    shapes, where = checkpoint.shapes, checkpoint.prefix
    matching = {}
    for name, variable in named.items():
        if name == GLOBAL_STEP and not include_global_step:
            continue
        if name not in shapes:
            _logger.warning("%s: no variable %s; it keeps its value", where, name)
        elif shapes[name] != tuple(variable.shape):
            expected, stored = list(variable.shape), list(shapes[name])
            _logger.warning("%s: %s is %s, found %s; it keeps its value", where, name, expected, stored)
        else:
            matching[name] = variable
    return matching
