"""Feature pyramid network, https://arxiv.org/abs/1612.03144, and SSD's extra layers.

With depthwise convolutions the pyramid is FPN-Lite. The extra layers downsample the last feature map of a
backbone, https://arxiv.org/abs/1512.02325.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.network_layers import NetworkLayers


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
    """Double rows and columns by repetition, and crop them to the finer features if they exceed these."""
    features = tf_keras.layers.UpSampling2D(2, interpolation="nearest", name=f"{name}_up")(features)
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
class ExtraLayersOptions:
    """Shape of the extra layers.

    Attributes:
        channels: nominal counts of the maps that can be added.
        num_layers: number of feature maps, those of the backbone included.
        depth_multiplier: factor of the nominal channel counts.
        min_depth: lower bound of channel counts.
        use_depthwise: whether 3x3 convolutions are separable.
    """

    channels: tuple[int, ...] = (512, 256, 256, 128)
    num_layers: int = 6
    depth_multiplier: float = 1.0
    min_depth: int = 16
    use_depthwise: bool = False


def _halve(
    features: tf.Tensor, name: str, channels: int, layers: NetworkLayers, options: ExtraLayersOptions
) -> tf.Tensor:
    if not options.use_depthwise:
        features = layers.conv(name, channels, 3, stride=2)(features)
        return layers.norm_activation(features, name)
    # As in published models: Glorot's initialiser and no regularizer in this depthwise convolution.
    use_bias = layers.hyperparams.use_bias
    features = layers.depthwise(f"{name}_depthwise", 3, stride=2, use_bias=use_bias, plain=True)(features)
    features = layers.norm_activation(features, f"{name}_depthwise")
    features = layers.conv(f"{name}_pointwise", channels, 1)(features)
    return layers.norm_activation(features, f"{name}_pointwise")


def extra_layers(
    backbone_maps: Sequence[tf.Tensor], layers: NetworkLayers, options: ExtraLayersOptions
) -> list[tf.Tensor]:
    """Append feature maps, each with half the rows and columns of the one before.

    Returns:
        `num_layers` feature maps, finest first.
    """
    maps = list(backbone_maps)[: options.num_layers]
    for index in range(len(maps), options.num_layers):
        nominal = options.channels[index - len(backbone_maps)]

        def depth(channels: float) -> int:
            return max(int(channels * options.depth_multiplier), options.min_depth)

        name = f"extra_{index}"
        features = layers.conv(f"{name}_shrink", depth(nominal / 2), 1)(maps[-1])
        features = layers.norm_activation(features, f"{name}_shrink")
        maps.append(_halve(features, f"{name}_halve", depth(nominal), layers, options))
    return maps
