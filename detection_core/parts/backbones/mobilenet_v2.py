"""MobileNetV2, https://arxiv.org/abs/1801.04381, as the body of a detector."""

from __future__ import annotations

import tensorflow as tf
import tf_keras

from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.backbones.mobilenet import MobileNetOptions
from detection_core.parts.layers.network_layers import NetworkLayers

# (expansion factor, channels, number of blocks, stride of the first block), the paper's table 2
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
FINAL_CHANNELS = 1280


def round_channels(channels: float, divisor: int = 8, *, least: int = 0) -> int:
    """The multiple of the divisor nearest to `channels`, never more than ten percent below it.

    Args:
        channels: the exact count.
        divisor: of the result where that is above `least`.
        least: smallest result; 0 for the divisor.
    """
    rounded = max(least or divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


class _Builder:
    """Grows the chain of layers; every layer's name starts with "backbone_"."""

    def __init__(self, layers: NetworkLayers, options: MobileNetOptions) -> None:
        self._layers = layers
        self._options = options

    def at_least(self, channels: int) -> int:
        return max(channels, self._options.min_depth)

    def conv(self, features: tf.Tensor, name: str, channels: int, kernel_size: int, stride: int) -> tf.Tensor:
        convolution = self._layers.conv(name, channels, kernel_size, stride=stride, use_bias=False)
        return self._layers.norm_activation(convolution(features), name)

    def block(
        self, features: tf.Tensor, name: str, expansion: int, channels: int, stride: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """One inverted residual block.

        Returns:
            The expanded features before the depthwise convolution, and the block's output.
        """
        layers, block_input = self._layers, features
        before = features.shape[-1]
        if expansion > 1:
            features = self.conv(features, f"{name}_expand", before * expansion, 1, 1)
        expanded = features
        features = layers.depthwise(f"{name}_depthwise", 3, stride=stride)(features)
        features = layers.norm_activation(features, f"{name}_depthwise")
        rounded = round_channels(int(channels * self._options.depth_multiplier))
        features = layers.conv(f"{name}_project", self.at_least(rounded), 1, use_bias=False)(features)
        features = layers.norm(f"{name}_project_bn")(features)
        # A block whose channels only min_depth made equal has no shortcut in models of the field.
        if stride == 1 and before == rounded:
            features = tf_keras.layers.Add(name=f"{name}_add")([block_input, features])
        return expanded, features


def mobilenet_v2(inputs: tf.Tensor, layers: NetworkLayers, options: MobileNetOptions) -> Endpoints:
    """Build the backbone on an input.

    Args:
        inputs: float32 [B, H, W, 3], in [-1, 1].
        layers: maker of the layers.
        options: shape of the backbone.

    Returns:
        Levels 1 to 5, level 5 after the final 1x1 convolution; expanded levels 1 to 4, the expansion of the
        first block of the next stride.
    """
    builder = _Builder(layers, options)
    alpha = options.depth_multiplier
    features = builder.conv(inputs, "backbone_stem", builder.at_least(round_channels(32 * alpha)), 3, 2)
    levels: dict[int, tf.Tensor] = {}
    before_stride: dict[int, tf.Tensor] = {}
    level, index = 1, 0
    for expansion, channels, repeats, first_stride in STAGES:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            name = f"backbone_block_{index}"
            expanded, features = builder.block(features, name, expansion, channels, stride)
            level += stride == 2
            if stride == 2:
                before_stride[level - 1] = expanded
            levels[level] = features
            index += 1
    final = round_channels(FINAL_CHANNELS * alpha) if alpha < 1.0 else FINAL_CHANNELS
    levels[5] = builder.conv(features, "backbone_head", builder.at_least(final), 1, 1)
    return Endpoints(levels, before_stride)
