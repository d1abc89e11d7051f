"""The sum of the penalties on a network's weights."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

import tensorflow as tf
import tf_keras

from detection_core.detectors.parts.layers.layer_hyperparams import Penalty, penalty_of

_logger = logging.getLogger(__name__)

PenalizedVariables = list[tuple[tf.Variable, Penalty]]


# A rewriting that takes a shared layer apart adds this to the names of its copies.
_COPY_SUFFIX = re.compile(r"_level_\d+$")


def _weight_names(variable: tf.Variable) -> tuple[str, str]:
    """The variable's "layer/weight" without the scopes of wrappers, and that of the layer it is a copy of."""
    scopes, _, weight = variable.name.split(":")[0].rpartition("/")
    layer = scopes.rpartition("/")[-1]
    return f"{layer}/{weight}", f"{_COPY_SUFFIX.sub('', layer)}/{weight}"


def penalized_variables(network: tf_keras.Model, penalties: Mapping[str, Penalty]) -> PenalizedVariables:
    """Find the variables that the penalties are on.

    Args:
        network: as built, or rewritten; a rewritten network keeps the names of layers that it keeps, and
            each copy of a shared layer, `NAME_level_N`, is penalised as the layer was.
        penalties: "layer/weight" -> penalty.

    Returns:
        Each variable once, in the network's order.
    """
    found: PenalizedVariables = []
    served: set[str] = set()
    for variable in network.trainable_variables:
        name = next((name for name in _weight_names(variable) if name in penalties), None)
        if name is not None:
            found.append((variable, penalties[name]))
            served.add(name)
    missing = sorted(set(penalties) - served)
    if missing:
        _logger.warning(
            "%d of %d penalised weights are not trainable variables of network %r and go without their"
            " penalty, the first is %s",
            len(missing),
            len(penalties),
            network.name,
            missing[0],
        )
    return found


def regularization_loss(variables: PenalizedVariables) -> tf.Tensor:
    """Sum the penalties, a float32 scalar."""
    if not variables:
        return tf.zeros([])
    return tf.add_n([penalty_of(penalty, variable) for variable, penalty in variables])
