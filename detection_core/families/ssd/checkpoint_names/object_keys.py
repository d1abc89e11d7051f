"""Map object-based checkpoint keys of the Object Detection API to the variables of a network."""

from __future__ import annotations

import tensorflow as tf
import tf_keras

from detection_core.errors import ModelError
from detection_core.families.ssd.checkpoint_names.backbones import backbone_paths
from detection_core.families.ssd.checkpoint_names.heads import HEAD_RULES
from detection_core.families.ssd.checkpoint_names.necks import NECK_RULES
from detection_core.families.ssd.checkpoint_names.object_paths import (
    NetworkNames,
    ObjectPaths,
    PathRules,
    names_of,
)
from detection_core.parts.layers.layer_names import (
    in_backbone,
    parse_layer_name,
    parse_variable_name,
)
from detection_core.training.checkpoint_variables import VARIABLE_SUFFIX

RULES: PathRules = {**NECK_RULES, **HEAD_RULES}


def _object_paths(layer: str, names: NetworkNames) -> ObjectPaths:
    if in_backbone(layer):
        return backbone_paths(layer, names)
    name = parse_layer_name(layer)
    rule = RULES.get((name.unit, name.role)) if name else None
    if name is None or rule is None:
        raise ModelError(
            f"expected a layer of a detector's network as it was built, found {layer!r}; read the checkpoint"
            " before the network is rewritten",
            where=layer,
        )
    return rule(name, names)


def object_keys(network: tf_keras.Model) -> dict[str, tf.Variable]:
    """Name every variable of a network by its object-based checkpoint key.

    The network must not be rewritten.

    Returns:
        Full checkpoint key, from "model/" to the attribute suffix, -> variable. A variable that the
        checkpoint tracks twice appears twice.

    Raises:
        ModelError: when no rule names one of the network's layers.
    """
    names = names_of(network)
    keys: dict[str, tf.Variable] = {}
    for layer in network.layers:
        if not layer.weights:
            continue
        objects = _object_paths(layer.name, names)
        for variable in layer.weights:
            leaf = parse_variable_name(variable).weight
            for path in objects.paths:
                keys[f"model/{path}/{objects.leaves.get(leaf, leaf)}{VARIABLE_SUFFIX}"] = variable
    return keys
