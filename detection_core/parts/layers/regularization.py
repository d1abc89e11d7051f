"""The regularization loss of a network's weights."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.layer_hyperparams import Regularizer, regularizer_loss
from detection_core.parts.layers.layer_names import parse_variable_name

_logger = logging.getLogger(__name__)

RegularizedVariables = list[tuple[tf.Variable, Regularizer]]


def regularized_variables(
    network: tf_keras.Model, regularizers: Mapping[str, Regularizer]
) -> RegularizedVariables:
    """Pair each regularized variable with its regularizer.

    Args:
        network: as built, or rewritten; a rewritten network keeps the names of layers that it keeps, and
            each copy of a shared layer, `NAME_level_N`, is regularized like the layer.
        regularizers: "layer/weight" -> regularizer.

    Returns:
        Each variable once, in the network's order.
    """
    regularized: RegularizedVariables = []
    served: set[str] = set()
    for variable in network.trainable_variables:
        own = parse_variable_name(variable)
        name = next((name for name in (own.key, own.original.key) if name in regularizers), None)
        if name is not None:
            regularized.append((variable, regularizers[name]))
            served.add(name)
    missing = sorted(set(regularizers) - served)
    if missing:
        _logger.warning(
            "%d of %d regularized weights are not trainable variables of network %r and are left"
            " out of the regularization loss, the first is %s",
            len(missing),
            len(regularizers),
            network.name,
            missing[0],
        )
    return regularized


def regularization_loss(variables: RegularizedVariables) -> tf.Tensor:
    """Sum the losses of all regularizers, a float32 scalar."""
    if not variables:
        return tf.zeros([])
    return tf.add_n([regularizer_loss(regularizer, variable) for variable, regularizer in variables])
