"""The shrinking layers that SSD puts on top of a backbone, https://arxiv.org/abs/1512.02325."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from detection_core.parts.layers.network_layers import NetworkLayers


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExtraLayersOptions:
    """Shape of the extra layers.

    Attributes:
        channels: nominal counts of the maps that can be put on top.
        num_layers: number of feature maps, those of the backbone included.
        depth_multiplier: factor of the nominal channel counts.
        min_depth: lower bound of channel counts.
        use_depthwise: separable 3x3 convolutions.
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
    # Models of the field have Glorot's initialiser and no regularizer in this depthwise convolution.
    use_bias = layers.hyperparams.use_bias
    features = layers.depthwise(f"{name}_depthwise", 3, stride=2, use_bias=use_bias, plain=True)(features)
    features = layers.norm_activation(features, f"{name}_depthwise")
    features = layers.conv(f"{name}_pointwise", channels, 1)(features)
    return layers.norm_activation(features, f"{name}_pointwise")


def extra_layers(
    backbone_maps: Sequence[tf.Tensor], layers: NetworkLayers, options: ExtraLayersOptions
) -> list[tf.Tensor]:
    """Append maps, each with half the rows and columns of the one before.

    Args:
        backbone_maps: the backbone's feature maps, finest first.
        layers: maker of the layers.
        options: shape of the extra layers.

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
