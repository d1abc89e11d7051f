"""Bidirectional feature pyramid network of EfficientDet, https://arxiv.org/abs/1911.09070."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.parts.necks.fpn import upsample_like

# Keeps the sum of the weights away from zero.
EPSILON = 1e-4
PLAIN_SUM = "sum"


def _fast_attention(weights: tf.Tensor) -> tf.Tensor:
    positive = tf.nn.relu(weights)
    return positive / (tf.reduce_sum(positive) + EPSILON)


def _attention(weights: tf.Tensor) -> tf.Tensor:
    """Return the softmax of each weight over itself alone, which is 1.

    This matches published models: their weights never change, and the node is a plain sum.
    """
    return tf.nn.softmax(weights, axis=-1)


# Name in configs -> shares of the inputs, float32 [n, 1], from their weights, float32 [n, 1].
SHARES: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "fast_attention": _fast_attention,
    "weighted_sum": tf.convert_to_tensor,
    "attention": _attention,
}
COMBINE_METHODS = (PLAIN_SUM, *SHARES)


@tf_keras.utils.register_keras_serializable(package="detflow")
class WeightedFusion(tf_keras.layers.Layer):
    """Sums maps of one shape, each times its weight; the method is a name in `SHARES`."""

    def __init__(self, method: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.method = method

    def build(self, input_shape: Any) -> None:
        """Create the weights, [number of maps, 1], initially 1."""
        self.combine_weights = self.add_weight(
            name="bifpn_combine_weights",
            shape=(len(input_shape), 1),
            initializer="ones",
            experimental_autocast=False,  # EPSILON needs float32
        )
        super().build(input_shape)

    def call(self, inputs: list[tf.Tensor]) -> tf.Tensor:
        """Sum the maps, [B, h, w, C] each."""
        shares = [tf.cast(share, self.compute_dtype) for share in self.shares()]
        shared = [shares[index] * features for index, features in enumerate(inputs)]
        return functools.reduce(tf.add, shared)  # TensorFlow Lite has no integer kernel for add_n

    @property
    def is_plain(self) -> bool:
        """Return whether every share is always 1; see `_attention`."""
        return SHARES.get(self.method) is _attention

    def shares(self) -> list[tf.Tensor]:
        """Return the share of each map, float32, broadcastable to it."""
        return tf.unstack(SHARES[self.method](self.combine_weights)[:, 0])

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "method": self.method}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BifpnOptions:
    """Shape of the pyramid; a level's stride is two to its power.

    Attributes:
        channels: of every level.
        iterations: passes, each from the coarsest level to the finest and back.
        min_level: finest level.
        max_level: coarsest level; those above the backbone's last are made by pooling.
        backbone_max_level: coarsest level of the backbone.
        combine_method: how a node combines its inputs, a name in `COMBINE_METHODS`.
    """

    channels: int
    iterations: int
    min_level: int = 3
    max_level: int = 7
    backbone_max_level: int = 5
    combine_method: str = "fast_attention"


class _Nodes:
    """Creates the nodes of the pyramid, named `bifpn_N` in order of creation."""

    def __init__(self, layers: NetworkLayers, options: BifpnOptions) -> None:
        self._layers = layers
        self._options = options
        self._made = 0

    def coarser(self, features: tf.Tensor) -> tf.Tensor:
        """Add a node that starts a level above the backbone's last."""
        return self._halved(self._projected(features, f"{self._next()}_input_0"))

    def from_above(self, same: Sequence[tf.Tensor], above: tf.Tensor) -> tf.Tensor:
        """Add a node of the top-down path: maps of the same level, and the map of the next coarser one."""
        name = self._next()
        *inputs, coarser = self._all_projected([*same, above], name)
        return self._combined([*inputs, upsample_like(coarser, inputs[0], name)], name)

    def from_below(self, same: Sequence[tf.Tensor], below: tf.Tensor) -> tf.Tensor:
        """Add a node of the bottom-up path: maps of the same level, and the map of the next finer one."""
        name = self._next()
        *inputs, finer = self._all_projected([*same, below], name)
        return self._combined([*inputs, self._halved(finer)], name)

    def _next(self) -> str:
        self._made += 1
        return f"bifpn_{self._made - 1}"

    def _all_projected(self, maps: Sequence[tf.Tensor], node: str) -> list[tf.Tensor]:
        return [self._projected(features, f"{node}_input_{index}") for index, features in enumerate(maps)]

    def _projected(self, features: tf.Tensor, name: str) -> tf.Tensor:
        """Project the features to the pyramid's channels, if they differ."""
        if features.shape[-1] == self._options.channels:
            return features
        projected = self._layers.conv(name, self._options.channels, 1)(features)
        return self._layers.norm(f"{name}_bn")(projected)

    def _halved(self, features: tf.Tensor) -> tf.Tensor:
        name = f"bifpn_{self._made - 1}_pool"
        return tf_keras.layers.MaxPooling2D(3, strides=2, padding="same", name=name)(features)

    def _combined(self, maps: list[tf.Tensor], name: str) -> tf.Tensor:
        method = self._options.combine_method
        combine: tf_keras.layers.Layer = (
            tf_keras.layers.Add(name=f"{name}_combine")
            if method == PLAIN_SUM
            else WeightedFusion(method, name=f"{name}_combine")
        )
        features = self._layers.activation(f"{name}_act")(combine(maps))
        convolution = self._layers.separable(name, self._options.channels, 3, plain=(False, False))
        return self._layers.norm(f"{name}_bn")(convolution(features))


def bidirectional_pyramid(
    levels: Mapping[int, tf.Tensor], layers: NetworkLayers, options: BifpnOptions
) -> list[tf.Tensor]:
    """Build the pyramid, of at least two levels, on the backbone's features by level.

    The levels reach at least from min_level to the coarsest used.

    Returns:
        Features of min_level to max_level, finest first, each [B, h, w, channels].
    """
    low, high = options.min_level, options.max_level
    nodes = _Nodes(layers, options)
    maps = {level: levels[level] for level in range(low, min(high, options.backbone_max_level) + 1)}
    for level in range(max(maps) + 1, high + 1):
        maps[level] = nodes.coarser(maps[level - 1])
    for _ in range(options.iterations):
        down: dict[int, tf.Tensor] = {}
        above = maps[high]
        for level in range(high - 1, low - 1, -1):
            above = down[level] = nodes.from_above([maps[level]], above)
        up = {low: down[low]}
        for level in range(low + 1, high + 1):
            # The bottom-up path alone has a node at the coarsest level.
            same = [maps[level], down[level]] if level < high else [maps[level]]
            up[level] = nodes.from_below(same, up[level - 1])
        maps = up
    return [maps[level] for level in range(low, high + 1)]
