"""Object paths of a layer's variables in an object-based checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

import tf_keras

from detection_core.parts.layers.layer_names import LayerName, parse_layer_name


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectPaths:
    """The checkpoint objects that hold a layer's variables.

    Attributes:
        paths: object paths below the model; several if the checkpoint tracks the layer twice.
        leaves: our variable's name -> its name there, if they differ.
    """

    paths: tuple[str, ...]
    leaves: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkNames:
    """Names of a network's layers, for the rules.

    Attributes:
        all: names of all its layers.
        weighted: names of the layers that have variables, in network order.
        parsed: the parsed names of all layers that belong to a part.
    """

    all: frozenset[str]
    weighted: tuple[str, ...]
    parsed: tuple[LayerName, ...]

    def slot_after_padding(self, name: str) -> int:
        """Return the first free slot in a layer list, which explicit padding may shift."""
        return int(f"{name}_pad" in self.all or f"{name}_depthwise_pad" in self.all)


# (layer's name, names of the network) -> paths
PathRule = Callable[[LayerName, NetworkNames], ObjectPaths]
# (unit, role) of a `LayerName` -> rule
PathRules = Mapping[tuple[str, str], PathRule]

# Halves of a separable convolution, which the checkpoint stores as one layer.
SEPARABLE_HALVES = {
    "depthwise": {"depthwise_kernel": "depthwise_kernel"},
    "pointwise": {"kernel": "pointwise_kernel"},
}


def names_of(network: tf_keras.Model) -> NetworkNames:
    """Collect the names of a network's layers."""
    parsed = (parse_layer_name(layer.name) for layer in network.layers)
    return NetworkNames(
        all=frozenset(layer.name for layer in network.layers),
        weighted=tuple(layer.name for layer in network.layers if layer.weights),
        parsed=tuple(name for name in parsed if name is not None),
    )


def for_roles(rule: PathRule, units: Iterable[str], roles: Iterable[str] = ("",)) -> PathRules:
    """Map each pair of unit and role to a rule."""
    return {(unit, role): rule for unit in units for role in roles}
