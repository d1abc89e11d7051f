"""The sum of the penalties on a network's weights."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import tensorflow as tf
import tf_keras

from detection_core.models.hyperparams import Penalty, penalty_of

_log = logging.getLogger(__name__)

PenalizedVariables = list[tuple[tf.Variable, Penalty]]


def _weight_name(variable: tf.Variable) -> str:
    """The variable's "layer/weight", without the scopes that wrappers put before it."""
    return "/".join(variable.name.split(":")[0].split("/")[-2:])


def penalized_variables(network: tf_keras.Model, penalties: Mapping[str, Penalty]) -> PenalizedVariables:
    """Find the variables that the penalties are on.

    Args:
        network: as built, or rewritten; a rewritten network keeps the names of layers that it keeps.
        penalties: "layer/weight" -> penalty.

    Returns:
        Each variable once, in the network's order.
    """
    found: dict[str, tf.Variable] = {}
    for variable in network.trainable_variables:
        name = _weight_name(variable)
        if name in penalties:
            found.setdefault(name, variable)
    missing = sorted(set(penalties) - set(found))
    if missing:
        _log.warning(
            "%d of %d penalised weights are not trainable variables of network %r and go without their"
            " penalty, the first is %s",
            len(missing),
            len(penalties),
            network.name,
            missing[0],
        )
    return [(variable, penalties[name]) for name, variable in found.items()]


def regularization_loss(variables: PenalizedVariables) -> tf.Tensor:
    """Sum the penalties, a float32 scalar."""
    if not variables:
        return tf.zeros([])
    return tf.add_n([penalty_of(penalty, variable) for variable, penalty in variables])
