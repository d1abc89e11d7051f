"""MobileNet-EdgeTPU, a MobileNetV3 found by search for the Edge TPU, as a backbone.

https://arxiv.org/abs/1905.02244; large maps use full convolutions instead of separable ones,
https://arxiv.org/abs/2003.02838.
"""

from __future__ import annotations

import tensorflow as tf

from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.backbones.bottlenecks import Bottleneck, BottleneckBuilder, Kind
from detection_core.parts.backbones.mobilenet import MobileNetOptions, round_channels
from detection_core.parts.layers.network_layers import NetworkLayers

STEM_CHANNELS = 32


def _stage(
    kind: Kind, channels: int, *, expansions: tuple[int, ...], kernel_size: int = 3, stride: int = 1
) -> list[Bottleneck]:
    """Return blocks of one channel count; the first has the stride, and no shortcut."""
    return [
        Bottleneck(
            kind=kind,
            channels=channels,
            kernel_size=kernel_size,
            expansion=expansion,
            stride=stride if index == 0 else 1,
            activation="relu",
            shortcut=index > 0,
        )
        for index, expansion in enumerate(expansions)
    ]


BLOCKS = (
    *_stage("fused", 16, expansions=(1,)),
    *_stage("fused", 32, expansions=(8, 4, 4, 4), stride=2),
    *_stage("fused", 48, expansions=(8, 4, 4, 4), stride=2),
    *_stage("inverted", 96, expansions=(8, 4, 4, 4), stride=2),
    *_stage("inverted", 96, expansions=(8, 4, 4, 4)),
    *_stage("inverted", 160, expansions=(8, 4, 4, 4), kernel_size=5, stride=2),
    *_stage("inverted", 192, expansions=(8,)),
)
EXPANDED = {4: 16}
"""Level -> block whose expansion detectors take, the last of that stride."""


def mobilenet_edgetpu(inputs: tf.Tensor, layers: NetworkLayers, options: MobileNetOptions) -> Endpoints:
    """Build the backbone on inputs float32 [B, H, W, 3], in [-1, 1].

    The network sets the activations of `layers`.

    Returns:
        Levels 1 to 5; expanded level 4, the expansion of the last block of that stride.
    """

    def channels(nominal: int) -> int:
        return round_channels(nominal * options.depth_multiplier, least=options.min_depth)

    builder = BottleneckBuilder(layers, channels=channels, rounded=round_channels)
    features = builder.conv(inputs, "backbone_stem", channels(STEM_CHANNELS), 3, stride=2, activation="relu")
    levels, inside = {1: features}, {}
    for index, block in enumerate(BLOCKS):
        inside[index], features = builder.block(features, f"backbone_block_{index}", block)
        levels[max(levels) + (block.stride == 2)] = features
    return Endpoints(levels, {level: inside[index] for level, index in EXPANDED.items()})
