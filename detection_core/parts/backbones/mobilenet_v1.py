"""MobileNetV1, https://arxiv.org/abs/1704.04861, as the body of a detector."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.backbones.mobilenet import MobileNetOptions
from detection_core.parts.layers.network_layers import NetworkLayers

STEM_CHANNELS = 32
# (channels, stride) of the separable convolutions, the paper's table 1
BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
# Channels of the last blocks in a detector whose pyramid brings separable convolutions of its own.
NARROW_TOP = (512, 256)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MobileNetV1Options(MobileNetOptions):
    """Shape of the backbone.

    Attributes:
        narrow_top: the last two blocks have 512 and 256 channels instead of 1024.
    """

    narrow_top: bool = False

    def channels(self, nominal: int) -> int:
        """Channels of a layer whose nominal count is given."""
        return max(int(nominal * self.depth_multiplier), self.min_depth)

    def blocks(self) -> tuple[tuple[int, int], ...]:
        """Nominal channels and stride of each block."""
        if not self.narrow_top:
            return BLOCKS
        kept = len(BLOCKS) - len(NARROW_TOP)
        strides = [stride for _, stride in BLOCKS[kept:]]
        return (*BLOCKS[:kept], *zip(NARROW_TOP, strides, strict=True))


def mobilenet_v1(inputs: tf.Tensor, layers: NetworkLayers, options: MobileNetV1Options) -> Endpoints:
    """Build the backbone on an input.

    Args:
        inputs: float32 [B, H, W, 3], in [-1, 1].
        layers: maker of the layers.
        options: shape of the backbone.

    Returns:
        Levels 1 to 5.
    """
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
