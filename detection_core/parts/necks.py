"""Necks, which mix feature maps of several levels.

Feature pyramid network, https://arxiv.org/abs/1612.03144; with depthwise convolutions it is FPN-Lite.
Bidirectional feature pyramid network of EfficientDet, https://arxiv.org/abs/1911.09070. SSD's extra layers,
https://arxiv.org/abs/1512.02325; they downsample the last feature map of a backbone.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.keras_layers import ConfiguredLayer
from detection_core.parts.layers.layer_hyperparams import ChannelOptions
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.parts.layers.static_shapes import has_static_shape


@dataclasses.dataclass(frozen=True, kw_only=True)
class FpnOptions:
    """Shape of the pyramid; a level's stride is two to its power.

    Attributes:
        min_level: finest level.
        max_level: coarsest level; those above the backbone's last are made by strided convolutions.
        backbone_max_level: coarsest level of the backbone.
        channels: of every level.
        use_depthwise: whether 3x3 convolutions are separable (FPN-Lite).
    """

    min_level: int = 3
    max_level: int = 7
    backbone_max_level: int = 5
    channels: int = 256
    use_depthwise: bool = False


def _conv_block(
    features: tf.Tensor, name: str, layers: NetworkLayers, options: FpnOptions, stride: int
) -> tf.Tensor:
    """Add a 3x3 convolution, plain or separable, with normalisation and activation."""
    make = layers.separable if options.use_depthwise else layers.conv
    features = make(name, options.channels, 3, stride=stride)(features)
    return layers.norm_activation(features, name)


def upsample_like(features: tf.Tensor, finer: tf.Tensor, name: str) -> tf.Tensor:
    """Double rows and columns by repetition, and crop them to the finer features if they exceed these.

    Sizes that differ between images must be twice those of the coarser features.
    """
    features = tf_keras.layers.UpSampling2D(2, interpolation="nearest", name=f"{name}_up")(features)
    if None in features.shape[1:3]:
        return features
    below, right = features.shape[1] - finer.shape[1], features.shape[2] - finer.shape[2]
    if below or right:
        features = tf_keras.layers.Cropping2D(((0, below), (0, right)), name=f"{name}_crop")(features)
    return features


def feature_pyramid(
    levels: Mapping[int, tf.Tensor], layers: NetworkLayers, options: FpnOptions
) -> list[tf.Tensor]:
    """Build the pyramid on the backbone's features by level.

    The levels reach at least from min_level to the coarsest used.

    Returns:
        Features of min_level to max_level, finest first, each [B, h, w, channels]. The coarsest level from
        the backbone is its projection only, without smoothing.
    """
    top = min(options.max_level, options.backbone_max_level)
    channels = options.channels

    def lateral(level: int) -> tf.Tensor:
        return layers.conv(f"fpn_lateral_{level}", channels, 1, use_bias=True)(levels[level])

    # Each level is computed from the smoothed output of the level above.
    pyramid = {top: lateral(top)}
    for level in range(top - 1, options.min_level - 1, -1):
        residual = lateral(level)
        above = upsample_like(pyramid[level + 1], residual, f"fpn_top_down_{level}")
        total = tf_keras.layers.Add(name=f"fpn_add_{level}")([above, residual])
        pyramid[level] = _conv_block(total, f"fpn_smooth_{level}", layers, options, 1)
    for level in range(top + 1, options.max_level + 1):
        pyramid[level] = _conv_block(pyramid[level - 1], f"fpn_coarse_{level}", layers, options, 2)
    return [pyramid[level] for level in range(options.min_level, options.max_level + 1)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExtraLayersOptions(ChannelOptions):
    """Shape of the extra layers.

    Attributes:
        nominal: channel counts of the maps that can be added, for a depth multiplier of 1.
        num_layers: number of feature maps, those of the backbone included.
        use_depthwise: whether 3x3 convolutions are separable.
    """

    nominal: tuple[int, ...] = (512, 256, 256, 128)
    num_layers: int = 6
    use_depthwise: bool = False


def _halve(
    features: tf.Tensor, name: str, channels: int, layers: NetworkLayers, options: ExtraLayersOptions
) -> tf.Tensor:
    if not options.use_depthwise:
        return layers.conv_block(features, name, channels, 3, stride=2)
    # As in published models: Glorot's initialiser and no regularizer in this depthwise convolution.
    features = layers.depthwise_block(
        features, f"{name}_depthwise", 3, stride=2, use_bias=layers.hyperparams.use_bias, plain=True
    )
    return layers.conv_block(features, f"{name}_pointwise", channels, 1)


def extra_layers(
    backbone_maps: Sequence[tf.Tensor], layers: NetworkLayers, options: ExtraLayersOptions
) -> list[tf.Tensor]:
    """Append feature maps, each with half the rows and columns of the one before.

    Returns:
        `num_layers` feature maps, finest first.
    """
    maps = list(backbone_maps)[: options.num_layers]
    for index in range(len(maps), options.num_layers):
        nominal, name = options.nominal[index - len(backbone_maps)], f"extra_{index}"
        features = layers.conv_block(maps[-1], f"{name}_shrink", options.channels(nominal / 2), 1)
        maps.append(_halve(features, f"{name}_halve", options.channels(nominal), layers, options))
    return maps


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


@has_static_shape
@tf_keras.utils.register_keras_serializable(package="detflow")
class WeightedFusion(ConfiguredLayer):
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

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of each map."""
        return input_shape[0]

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
        return self._layers.conv_norm(features, name, self._options.channels, 1)

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
