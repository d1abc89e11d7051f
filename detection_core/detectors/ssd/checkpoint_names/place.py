"""Where a layer of ours lives in a checkpoint of the field."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import tf_keras


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """The checkpoint objects that hold a layer's variables.

    Attributes:
        paths: object paths below the model; several where the checkpoint tracks the layer twice.
        leaves: our variable's name -> its name there, where they differ.
    """

    paths: tuple[str, ...]
    leaves: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkNames:
    """What rules may know of a network besides the layer's own name.

    Attributes:
        all: names of all its layers.
        weighted: names of the layers that have variables, in network order.
    """

    all: frozenset[str]
    weighted: tuple[str, ...]

    def slot_after_padding(self, name: str) -> int:
        """First free slot in a list of layers that explicit padding may open."""
        return int(f"{name}_pad" in self.all or f"{name}_depthwise_pad" in self.all)


# (layer's name, the regular expression's groups, names of the network) -> place
PlaceRule = Callable[[str, tuple[str, ...], NetworkNames], Place]

# Halves of a separable convolution, which the checkpoint keeps as one layer.
SEPARABLE_HALVES = {
    "depthwise": {"depthwise_kernel": "depthwise_kernel"},
    "pointwise": {"kernel": "pointwise_kernel"},
}


def names_of(network: tf_keras.Model) -> NetworkNames:
    """Collect the names of a network's layers."""
    return NetworkNames(
        all=frozenset(layer.name for layer in network.layers),
        weighted=tuple(layer.name for layer in network.layers if layer.weights),
    )
