"""Checkpoint key -> variable of a network, for object-based checkpoints of the field."""

from __future__ import annotations

import re

import tensorflow as tf
import tf_keras

from detection_core.detectors.ssd.checkpoint_names.backbones import BACKBONE_RULES
from detection_core.detectors.ssd.checkpoint_names.heads import HEAD_RULES
from detection_core.detectors.ssd.checkpoint_names.necks import NECK_RULES
from detection_core.detectors.ssd.checkpoint_names.place import (
    NetworkNames,
    Place,
    PlaceRule,
    names_of,
)
from detection_core.errors import ModelError
from detection_core.training.object_checkpoint import VARIABLE_SUFFIX

RULES: dict[str, PlaceRule] = {**BACKBONE_RULES, **NECK_RULES, **HEAD_RULES}


def leaf_name(variable: tf.Variable) -> str:
    """The variable's name within its layer, such as "kernel"."""
    return variable.name.rsplit("/", 1)[-1].split(":")[0]


def _place(name: str, names: NetworkNames) -> Place:
    for pattern, rule in RULES.items():
        match = re.fullmatch(pattern, name)
        if match:
            return rule(name, match.groups(), names)
    raise ModelError(
        f"expected a layer of a detector's network as it was built, found {name!r}; read the checkpoint"
        " before the network is rewritten",
        where=name,
    )


def object_keys(network: tf_keras.Model) -> dict[str, tf.Variable]:
    """Name every variable of a network as a checkpoint of the field does.

    Args:
        network: as a builder made it, before any rewriting.

    Returns:
        Full checkpoint key, from "model/" to the attribute suffix, -> variable. A variable that the
        checkpoint tracks twice appears twice.

    Raises:
        ModelError: when the network has a layer that no rule knows.
    """
    names = names_of(network)
    keys: dict[str, tf.Variable] = {}
    for layer in network.layers:
        if not layer.weights:
            continue
        place = _place(layer.name, names)
        for variable in layer.weights:
            leaf = leaf_name(variable)
            for path in place.paths:
                keys[f"model/{path}/{place.leaves.get(leaf, leaf)}{VARIABLE_SUFFIX}"] = variable
    return keys
