"""MobileNet V1, https://arxiv.org/abs/1704.04861, and V2, https://arxiv.org/abs/1801.04381, as backbones."""

import dataclasses

import tensorflow as tf
import tf_keras

from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.layers.layer_hyperparams import (
    BatchNormOptions,
    InitializerOptions,
    LayerHyperparams,
    Regularizer,
)
from detection_core.parts.layers.network_layers import NetworkLayers

DEFAULT_HYPERPARAMS = LayerHyperparams(
    initializer=InitializerOptions(class_name="TruncatedNormal", arguments={"stddev": 0.09}),
    regularizer=Regularizer(kind="l2", weight=0.00004),
    batch_norm=BatchNormOptions(momentum=0.9997, epsilon=0.001, center=True, scale=True),
    activation="relu6",
)
"""Hyperparameters of a MobileNet where the config does not override them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MobileNetOptions:
    """Shape of a MobileNet.

    Attributes:
        depth_multiplier: factor of all channel counts; the last layer of MobileNet v2 has at most 1280
            channels.
        min_depth: lower bound of channel counts, except in MobileNet v2's expansions.
    """

    depth_multiplier: float = 1.0
    min_depth: int = 16


STEM_CHANNELS = 32
# (channels, stride) of the separable convolutions, the paper's table 1
BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
# Channels of the last blocks in a detector whose pyramid adds separable convolutions.
NARROW_TOP = (512, 256)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MobileNetV1Options(MobileNetOptions):
    """Shape of a MobileNet v1; a narrow top ends with 512 and 256 channels instead of 1024."""

    narrow_top: bool = False

    def channels(self, nominal: int) -> int:
        """Return the channels of a layer for its nominal count."""
        return max(int(nominal * self.depth_multiplier), self.min_depth)

    def blocks(self) -> tuple[tuple[int, int], ...]:
        """Nominal channels and stride of each block."""
        if not self.narrow_top:
            return BLOCKS
        kept = len(BLOCKS) - len(NARROW_TOP)
        strides = [stride for _, stride in BLOCKS[kept:]]
        return (*BLOCKS[:kept], *zip(NARROW_TOP, strides, strict=True))


def mobilenet_v1(inputs: tf.Tensor, layers: NetworkLayers, options: MobileNetV1Options) -> Endpoints:
    """Build the backbone on inputs float32 [B, H, W, 3], in [-1, 1]. Levels 1 to 5."""
    stem = layers.conv("backbone_stem", options.channels(STEM_CHANNELS), 3, stride=2, use_bias=False)
    features = layers.norm_activation(stem(inputs), "backbone_stem")
    levels: dict[int, tf.Tensor] = {}
    level = 1
    for index, (nominal, stride) in enumerate(options.blocks(), start=1):
        name = f"backbone_separable_{index}"
        features = layers.depthwise(f"{name}_depthwise", 3, stride=stride)(features)
        features = layers.norm_activation(features, f"{name}_depthwise")
        pointwise = layers.conv(f"{name}_pointwise", options.channels(nominal), 1, use_bias=False)
        features = layers.norm_activation(pointwise(features), f"{name}_pointwise")
        level += stride == 2
        levels[level] = features
    return Endpoints(levels)


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
    """Round channels to the nearest multiple of a divisor, but never more than ten percent down.

    The result is at least `least`; 0: the divisor.
    """
    rounded = max(least or divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


class _Builder:
    """Builds the chain of layers; every layer's name starts with "backbone_"."""

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
        """Add an inverted residual block; return its expanded features and its output."""
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
        # In published models, a block whose channels are equal only due to min_depth has no shortcut.
        if stride == 1 and before == rounded:
            features = tf_keras.layers.Add(name=f"{name}_add")([block_input, features])
        return expanded, features


def mobilenet_v2(inputs: tf.Tensor, layers: NetworkLayers, options: MobileNetOptions) -> Endpoints:
    """Build the backbone on inputs float32 [B, H, W, 3], in [-1, 1].

    Returns:
        Levels 1 to 5, level 5 after the final 1x1 convolution. Expanded levels 1 to 4, the expansion of the
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
