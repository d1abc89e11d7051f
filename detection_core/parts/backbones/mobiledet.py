"""MobileDet, found by search for CPUs, DSPs, the Edge TPU and GPUs, https://arxiv.org/abs/2004.14525."""

import dataclasses
import math
from collections.abc import Mapping

import tensorflow as tf

from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.backbones.bottlenecks import Bottleneck, BottleneckBuilder, stage
from detection_core.parts.layers import layer_hyperparams
from detection_core.parts.layers.network_layers import NetworkLayers

_DIVISOR = 8
_OF_TRUNCATED = 0.87962566103423978
"""Standard deviation of a standard normal distribution truncated at two deviations."""

# Configs do not override these.
DEFAULT_HYPERPARAMS = layer_hyperparams.LayerHyperparams(
    initializer=layer_hyperparams.InitializerOptions(class_name="HeNormal"),
    regularizer=layer_hyperparams.Regularizer(kind="l2", weight=0.00004),
    batch_norm=layer_hyperparams.BatchNormOptions(momentum=0.99, epsilon=0.01, center=True, scale=True),
    activation="relu6",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Architecture:
    """The architecture for one kind of hardware.

    Attributes:
        stem_channels: of the first convolution.
        blocks: with the channel counts of a depth multiplier of 1.
        activation: of the first convolution and the blocks.
    """

    stem_channels: int
    blocks: tuple[Bottleneck, ...]
    activation: str = "relu6"


def _inverted(channels: int, expansion: int, kernel_size: int = 3) -> Bottleneck:
    return Bottleneck(kind="inverted", channels=channels, expansion=expansion, kernel_size=kernel_size)


def _fused(channels: int, expansion: int, kernel_size: int = 3) -> Bottleneck:
    return Bottleneck(kind="fused", channels=channels, expansion=expansion, kernel_size=kernel_size)


def _tucker(channels: int, before: float, after: float) -> Bottleneck:
    return Bottleneck(kind="tucker", channels=channels, ranks=(before, after))


def _cpu() -> Architecture:
    plain = (
        *stage(1, _inverted(8, 1)),
        *stage(2, _inverted(16, 4)),
        *stage(2, _inverted(32, 8), *[_inverted(32, 4)] * 3),
        *stage(2, _inverted(72, 8, 5), _inverted(72, 8), _inverted(72, 4, 5), _inverted(72, 4)),
        *stage(1, *[_inverted(72, 8)] * 4),
        *stage(2, _inverted(104, 8, 5), *[_inverted(104, 4, 5)] * 2, _inverted(104, 4)),
        *stage(1, _inverted(144, 8)),
    )
    blocks = tuple(dataclasses.replace(block, gated=True, activation="hswish") for block in plain)
    return Architecture(stem_channels=16, blocks=blocks, activation="hswish")


ARCHITECTURES: Mapping[str, Architecture] = {
    "cpu": _cpu(),
    "dsp": Architecture(
        stem_channels=32,
        blocks=(
            *stage(1, _inverted(24, 1)),
            *stage(2, _fused(32, 4), _fused(32, 4), _inverted(32, 4), _tucker(32, 0.25, 0.75)),
            *stage(2, _fused(64, 8), _inverted(64, 4), *[_fused(64, 4)] * 2),
            *stage(2, _fused(120, 8), _inverted(120, 4), *[_inverted(120, 8)] * 2),
            *stage(1, _fused(144, 8), *[_inverted(144, 8)] * 3),
            *stage(2, _inverted(160, 4), _inverted(160, 4), _fused(160, 4), _tucker(160, 0.75, 0.75)),
            *stage(1, _inverted(240, 8)),
        ),
    ),
    "edgetpu": Architecture(
        stem_channels=32,
        blocks=(
            *stage(1, _tucker(16, 0.25, 0.75)),
            *stage(2, _fused(16, 8), _fused(16, 4), _fused(16, 8), _fused(16, 4)),
            *stage(2, _fused(40, 8, 5), *[_fused(40, 4)] * 3),
            *stage(2, *[_inverted(72, 8)] * 2, *[_fused(72, 4)] * 2),
            *stage(1, *[_inverted(96, 8, 5)] * 2, *[_inverted(96, 8)] * 2),
            *stage(2, _inverted(120, 8, 5), _inverted(120, 8), _inverted(120, 4, 5), _inverted(120, 8)),
            *stage(1, _inverted(384, 8, 5)),
        ),
    ),
    "gpu": Architecture(
        stem_channels=32,
        blocks=(
            *stage(1, _tucker(16, 0.25, 0.25)),
            *stage(2, _fused(32, 8), *[_tucker(32, 0.25, 0.25)] * 3),
            *stage(2, *[_fused(64, 8)] * 3, _fused(64, 4)),
            *stage(2, _fused(128, 8), *[_fused(128, 4)] * 3),
            *stage(1, *[_fused(128, 8)] * 4),
            *stage(2, *[_fused(128, 4)] * 4),
            *stage(1, _inverted(384, 8)),
        ),
    ),
}
"""Hardware -> architecture."""


def _rounded(channels: float) -> int:
    """Return the multiple of 8 nearest to `channels`, at least 8."""
    return max(_DIVISOR, int(channels / _DIVISOR + 0.5) * _DIVISOR)


def _depthwise_initializer(kernel_size: int) -> layer_hyperparams.InitializerOptions:
    """Return He's initializer, https://arxiv.org/abs/1502.01852, with the fan-in of one channel."""
    deviation = math.sqrt(2.0) / kernel_size / _OF_TRUNCATED
    return layer_hyperparams.InitializerOptions(class_name="TruncatedNormal", arguments={"stddev": deviation})


def mobiledet(
    inputs: tf.Tensor, layers: NetworkLayers, hardware: str, *, depth_multiplier: float = 1.0
) -> Endpoints:
    """Build the backbone.

    Args:
        inputs: float32 [B, H, W, 3], in [-1, 1].
        layers: creates the layers; the network sets their activations.
        hardware: target hardware, a key of `ARCHITECTURES`.
        depth_multiplier: factor of all channel counts.

    Returns:
        Levels 1 to 5.
    """

    def channels(nominal: int) -> int:
        return _rounded(nominal * depth_multiplier)

    architecture = ARCHITECTURES[hardware]
    builder = BottleneckBuilder(
        layers=layers, channels=channels, rounded=_rounded, depthwise_initializer=_depthwise_initializer
    )
    stem, activation = channels(architecture.stem_channels), architecture.activation
    features = builder.conv(inputs, "backbone_stem", stem, 3, stride=2, activation=activation)
    return Endpoints(builder.levels(features, architecture.blocks)[0])
