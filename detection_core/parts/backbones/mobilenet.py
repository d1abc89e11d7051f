"""MobileNet V1, https://arxiv.org/abs/1704.04861, and V2, https://arxiv.org/abs/1801.04381, as backbones."""

import tensorflow as tf
import tf_keras

from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.layers.layer_hyperparams import (
    BatchNormOptions,
    ChannelOptions,
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


STEM_CHANNELS = 32
# (channels, stride) of the separable convolutions, the paper's table 1
BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
# The last blocks in a detector whose pyramid adds separable convolutions.
NARROW_TOP = ((512, 2), (256, 1))


def mobilenet_v1(
    inputs: tf.Tensor, layers: NetworkLayers, options: ChannelOptions, *, narrow_top: bool = False
) -> Endpoints:
    """Build the backbone on inputs float32 [B, H, W, 3], in [-1, 1]. Levels 1 to 5.

    A narrow top ends with 512 and 256 channels instead of 1024.
    """
    stem = options.channels(STEM_CHANNELS)
    features = layers.conv_block(inputs, "backbone_stem", stem, 3, stride=2, use_bias=False)
    levels: dict[int, tf.Tensor] = {}
    level = 1
    blocks = (*BLOCKS[: -len(NARROW_TOP)], *NARROW_TOP) if narrow_top else BLOCKS
    for index, (nominal, stride) in enumerate(blocks, start=1):
        name = f"backbone_separable_{index}"
        features = layers.depthwise_block(features, f"{name}_depthwise", 3, stride=stride)
        channels = options.channels(nominal)
        features = layers.conv_block(features, f"{name}_pointwise", channels, 1, use_bias=False)
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


def _block(
    block_input: tf.Tensor,
    layers: NetworkLayers,
    name: str,
    shape: tuple[int, int, int],
    options: ChannelOptions,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Add an inverted residual block of a shape: expansion factor, channels and stride.

    Returns:
        Its expanded features, and its output.
    """
    expansion, channels, stride = shape
    before, expanded = block_input.shape[-1], block_input
    if expansion > 1:
        expanded = layers.conv_block(expanded, f"{name}_expand", before * expansion, 1, use_bias=False)
    features = layers.depthwise_block(expanded, f"{name}_depthwise", 3, stride=stride)
    rounded = round_channels(int(channels * options.depth_multiplier))
    made = max(rounded, options.min_depth)
    features = layers.conv_norm(features, f"{name}_project", made, 1, use_bias=False)
    # In published models, a block whose channels are equal only due to min_depth has no shortcut.
    if stride == 1 and before == rounded:
        features = tf_keras.layers.Add(name=f"{name}_add")([block_input, features])
    return expanded, features


def mobilenet_v2(inputs: tf.Tensor, layers: NetworkLayers, options: ChannelOptions) -> Endpoints:
    """Build the backbone on inputs float32 [B, H, W, 3], in [-1, 1].

    The last layer has at most 1280 channels, and expansions may have fewer than `min_depth`.

    Returns:
        Levels 1 to 5, level 5 after the final 1x1 convolution. Expanded levels 1 to 4, the expansion of the
        first block of the next stride.
    """
    alpha = options.depth_multiplier
    stem = max(round_channels(32 * alpha), options.min_depth)
    features = layers.conv_block(inputs, "backbone_stem", stem, 3, stride=2, use_bias=False)
    levels: dict[int, tf.Tensor] = {}
    before_stride: dict[int, tf.Tensor] = {}
    level, index = 1, 0
    for expansion, channels, repeats, first_stride in STAGES:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            shape = (expansion, channels, stride)
            expanded, features = _block(features, layers, f"backbone_block_{index}", shape, options)
            level += stride == 2
            if stride == 2:
                before_stride[level - 1] = expanded
            levels[level] = features
            index += 1
    final = max(round_channels(FINAL_CHANNELS * min(alpha, 1.0)), options.min_depth)
    levels[5] = layers.conv_block(features, "backbone_head", final, 1, use_bias=False)
    return Endpoints(levels, before_stride)
