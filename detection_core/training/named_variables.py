"""Restore variables of any model from a name-based checkpoint."""

import logging
from collections.abc import Mapping, Sequence

import tensorflow as tf

from detection_core.parts.layers.layer_names import scoped_name
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.checkpoint_variables import NamedCheckpoint

_logger = logging.getLogger(__name__)
GLOBAL_STEP = "global_step"

Variables = Mapping[str, tf.Variable] | Sequence[tf.Variable]


def restore_variables(
    variables: Variables, checkpoint: str, *, include_global_step: bool = True
) -> list[str]:
    """Restore variables from a TensorFlow 1 checkpoint where it has them in this shape; return their names.

    Missing variables and those of another shape are logged and keep their values.

    Args:
        variables: a mapping of checkpoint names to variables, or a list of variables that are looked up by
            their own names.
        checkpoint: prefix of its files.
        include_global_step: False leaves the variable `global_step` unchanged.

    Raises:
        ModelError: when the checkpoint is missing, damaged or object-based.
        TypeError: for neither of the two forms of variables.
    """
    if isinstance(variables, list | tuple):
        variables = {scoped_name(v): v for v in variables}
    if not isinstance(variables, Mapping):
        raise TypeError(f"expected a mapping or a list of variables, found {type(variables).__name__}")
    reader = NamedCheckpoint(CheckpointFile(checkpoint))
    shapes, where = reader.shapes, reader.prefix
    matching = {}
    for name, variable in variables.items():
        if name == GLOBAL_STEP and not include_global_step:
            continue
        if name not in shapes:
            _logger.warning("%s: no variable %s; it keeps its value", where, name)
        elif shapes[name] != tuple(variable.shape):
            expected, stored = list(variable.shape), list(shapes[name])
            _logger.warning("%s: %s is %s, found %s; it keeps its value", where, name, expected, stored)
        else:
            matching[name] = variable
    values = {name: reader.read(name) for name in matching}
    for name, variable in matching.items():
        variable.assign(tf.cast(values[name], variable.dtype))
    return sorted(matching)
