"""MobileNetV3, large and small, and MobileNet-EdgeTPU, found by search, as backbones.

https://arxiv.org/abs/1905.02244; on the Edge TPU, large maps use full convolutions instead of separable ones,
https://arxiv.org/abs/2003.02838.
"""

import dataclasses
import functools
from typing import Any

import tensorflow as tf

from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.backbones.bottlenecks import Bottleneck, BottleneckBuilder, Kind, stage
from detection_core.parts.backbones.mobilenet import round_channels
from detection_core.parts.layers.layer_hyperparams import ChannelOptions
from detection_core.parts.layers.network_layers import NetworkLayers

STEM_CHANNELS = 16
_COLUMNS = ("kernel_size", "expansion", "channels", "stride", "gated", "activation")


def _blocks(*rows: tuple[Any, ...]) -> tuple[Bottleneck, ...]:
    """Return the blocks of rows of `_COLUMNS`."""
    return tuple(Bottleneck(**dict(zip(_COLUMNS, row, strict=True))) for row in rows)


# Size -> blocks, the paper's tables 1 and 2.
BLOCKS = {
    "large": _blocks(
        (3, 1, 16, 1, False, "relu"),
        (3, 4, 24, 2, False, "relu"),
        (3, 3, 24, 1, False, "relu"),
        (5, 3, 40, 2, True, "relu"),
        *[(5, 3, 40, 1, True, "relu")] * 2,
        (3, 6, 80, 2, False, "hswish"),
        (3, 2.5, 80, 1, False, "hswish"),
        *[(3, 2.3, 80, 1, False, "hswish")] * 2,
        *[(3, 6, 112, 1, True, "hswish")] * 2,
        (5, 6, 160, 2, True, "hswish"),
        *[(5, 6, 160, 1, True, "hswish")] * 2,
    ),
    "small": _blocks(
        (3, 1, 16, 2, True, "relu"),
        (3, 72 / 16, 24, 2, False, "relu"),
        (3, 88 / 24, 24, 1, False, "relu"),
        (5, 4, 40, 2, True, "hswish"),
        *[(5, 6, 40, 1, True, "hswish")] * 2,
        *[(5, 3, 48, 1, True, "hswish")] * 2,
        (5, 6, 96, 2, True, "hswish"),
        *[(5, 6, 96, 1, True, "hswish")] * 2,
    ),
}
FINAL_CHANNELS = {"large": 960, "small": 576}
"""Size -> channels of the last convolution."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MobileNetV3Options(ChannelOptions):
    """Shape of the backbone.

    Attributes:
        size: "large" or "small".
        minimalistic: no gates, hard swish or 5x5 kernels, which not every accelerator supports.
        narrow_top: whether channels after the last stride are halved, as in the paper's detectors.
    """

    size: str
    minimalistic: bool = False
    narrow_top: bool = True

    @property
    def activation(self) -> str:
        """Activation of the first and the last convolution."""
        return "relu" if self.minimalistic else "hswish"

    @property
    def blocks(self) -> tuple[Bottleneck, ...]:
        """The blocks, with the channel counts of a depth multiplier of 1."""
        blocks = BLOCKS[self.size]
        if self.minimalistic:
            plain = functools.partial(dataclasses.replace, kernel_size=3, gated=False, activation="relu")
            blocks = tuple(plain(block) for block in blocks)
        if not self.narrow_top:
            return blocks
        last = max(index for index, block in enumerate(blocks) if block.stride > 1)
        narrow = [dataclasses.replace(block, channels=block.channels // 2) for block in blocks[last:]]
        return (*blocks[:last], *narrow)

    @property
    def final_channels(self) -> int:
        """Channels of the last convolution, for a depth multiplier of 1."""
        return FINAL_CHANNELS[self.size] // (2 if self.narrow_top else 1)

    def channels(self, nominal: float) -> int:
        """Return the channels of a layer for its nominal count."""
        return round_channels(nominal * self.depth_multiplier, least=self.min_depth)


def mobilenet_v3(inputs: tf.Tensor, layers: NetworkLayers, options: MobileNetV3Options) -> Endpoints:
    """Build the backbone on inputs float32 [B, H, W, 3], in [-1, 1].

    The network sets the activations of `layers`.

    Returns:
        Levels 1 to 5, level 5 after the final 1x1 convolution. Expanded levels 1 to 4, the expansion of the
        first block of the next stride.
    """
    builder = BottleneckBuilder(
        layers=layers,
        channels=options.channels,
        rounded=round_channels,
        gate="hard_sigmoid",
        gate_activation="relu",
    )
    stem = options.channels(STEM_CHANNELS)
    features = builder.conv(inputs, "backbone_stem", stem, 3, stride=2, activation=options.activation)
    levels, inside = builder.levels(features, options.blocks)
    final = options.channels(options.final_channels)
    levels[max(levels)] = builder.conv(
        levels[max(levels)], "backbone_head", final, activation=options.activation
    )
    halving = (first for first, block in zip(inside, options.blocks, strict=True) if block.stride == 2)
    return Endpoints(levels, dict(enumerate(halving, 1)))


EDGETPU_STEM = 32


def _stage(
    kind: Kind, channels: int, *expansions: int, kernel_size: int = 3, stride: int = 1
) -> tuple[Bottleneck, ...]:
    plain = Bottleneck(kind=kind, channels=channels, kernel_size=kernel_size, activation="relu")
    return stage(stride, *(dataclasses.replace(plain, expansion=expansion) for expansion in expansions))


EDGETPU_BLOCKS: tuple[Bottleneck, ...] = (
    *_stage("fused", 16, 1),
    *_stage("fused", 32, 8, 4, 4, 4, stride=2),
    *_stage("fused", 48, 8, 4, 4, 4, stride=2),
    *_stage("inverted", 96, 8, 4, 4, 4, stride=2),
    *_stage("inverted", 96, 8, 4, 4, 4),
    *_stage("inverted", 160, 8, 4, 4, 4, kernel_size=5, stride=2),
    *_stage("inverted", 192, 8),
)
EDGETPU_EXPANDED = {4: 16}
"""Level -> block whose expansion detectors take, the last of that stride."""


def mobilenet_edgetpu(inputs: tf.Tensor, layers: NetworkLayers, options: ChannelOptions) -> Endpoints:
    """Build the backbone on inputs float32 [B, H, W, 3], in [-1, 1].

    The network sets the activations of `layers`.

    Returns:
        Levels 1 to 5; expanded level 4, the expansion of the last block of that stride.
    """

    def channels(nominal: int) -> int:
        return round_channels(nominal * options.depth_multiplier, least=options.min_depth)

    builder = BottleneckBuilder(layers=layers, channels=channels, rounded=round_channels)
    features = builder.conv(inputs, "backbone_stem", channels(EDGETPU_STEM), 3, stride=2, activation="relu")
    levels, inside = builder.levels(features, EDGETPU_BLOCKS)
    return Endpoints(levels, {level: inside[index] for level, index in EDGETPU_EXPANDED.items()})
