"""Bottleneck blocks of backbones for mobile devices.

Inverted residuals of MobileNetV2, https://arxiv.org/abs/1801.04381, and with squeeze-and-excite of
MobileNetV3, https://arxiv.org/abs/1905.02244. Fused blocks, whose first convolution is not separable, and
Tucker blocks are from MobileDet, https://arxiv.org/abs/2004.14525.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Literal

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.layer_hyperparams import InitializerOptions
from detection_core.parts.layers.network_layers import NetworkLayers, squeeze_excite

GATE_RATIO = 0.25
"""Channels between a gate's convolutions, as a fraction of the gated channels."""

Kind = Literal["inverted", "fused", "tucker"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bottleneck:
    """Shape of a block.

    Attributes:
        channels: of its output, for a depth multiplier of 1.
        kind: "inverted": a 1x1, a depthwise and a 1x1 convolution; "fused": a full and a 1x1 convolution;
            "tucker": a full convolution between 1x1 ones.
        kernel_size: of the depthwise or full convolution.
        expansion: factor of the channels in the first convolution, which is omitted if it adds no channels;
            not for "tucker".
        ranks: of "tucker": input and output channels of its full convolution, as fractions of the block's.
        stride: of the depthwise or full convolution.
        gated: whether a gate weights the features before the projection.
        activation: of all its convolutions but the last; see `LayerHyperparams.activation`.
        shortcut: whether the input is added if it has the shape of the output.
    """

    channels: int
    kind: Kind = "inverted"
    kernel_size: int = 3
    expansion: float = 1.0
    ranks: tuple[float, float] = (0.25, 0.25)
    stride: int = 1
    gated: bool = False
    activation: str = "relu6"
    shortcut: bool = True


def stage(stride: int, *blocks: Bottleneck) -> tuple[Bottleneck, ...]:
    """Give the stride to the first block, which has no shortcut, whatever its channels are."""
    return (dataclasses.replace(blocks[0], stride=stride, shortcut=False), *blocks[1:])


@dataclasses.dataclass(frozen=True, kw_only=True)
class BottleneckBuilder:
    """Adds blocks to a network; every layer's name starts with that of its block.

    Attributes:
        layers: creates the layers.
        channels: nominal output channel count -> the count.
        rounded: exact channel count inside a block -> the count.
        gate: of gated blocks, a name in `network_layers.GATES`.
        gate_activation: between a gate's convolutions; "" for that of the block.
        depthwise_initializer: kernel size -> initializer of depthwise kernels; None for the hyperparameters'.
    """

    layers: NetworkLayers
    channels: Callable[[int], int]
    rounded: Callable[[float], int]
    gate: str = "sigmoid"
    gate_activation: str = ""
    depthwise_initializer: Callable[[int], InitializerOptions] | None = None

    def conv(
        self,
        features: tf.Tensor,
        name: str,
        channels: int,
        kernel_size: int = 1,
        *,
        stride: int = 1,
        activation: str,
    ) -> tf.Tensor:
        """Add a convolution with normalisation and activation, with exactly `channels`."""
        layers = self.layers.changed(activation=activation)
        return layers.conv_block(features, name, channels, kernel_size, stride=stride, use_bias=False)

    def levels(
        self, stem: tf.Tensor, blocks: Iterable[Bottleneck]
    ) -> tuple[dict[int, tf.Tensor], list[tf.Tensor]]:
        """Add blocks to a stem of level 1; return the last features of each level, and each block's first."""
        levels, inside = {1: stem}, []
        for index, block in enumerate(blocks):
            first, features = self.block(levels[max(levels)], f"backbone_block_{index}", block)
            inside.append(first)
            levels[max(levels) + (block.stride == 2)] = features
        return levels, inside

    def block(self, features: tf.Tensor, name: str, block: Bottleneck) -> tuple[tf.Tensor, tf.Tensor]:
        """Add a block.

        Returns:
            The output of its first convolution (the input if none precedes the depthwise one), and its
            output.
        """
        channels = self.channels(block.channels)
        first, inner = _INSIDE[block.kind](self, features, name, block)
        if block.gated:
            squeezed = self.rounded(inner.shape[-1] * GATE_RATIO)
            activation = self.gate_activation or block.activation
            inner = squeeze_excite(inner, self.layers, name, squeezed, activation, gate=self.gate)
        output = self.layers.conv_norm(inner, f"{name}_project", channels, 1, use_bias=False)
        if block.shortcut and block.stride == 1 and features.shape[-1] == channels:
            output = tf_keras.layers.Add(name=f"{name}_add")([output, features])
        return first, output

    def inverted(self, features: tf.Tensor, name: str, block: Bottleneck) -> tuple[tf.Tensor, tf.Tensor]:
        """Add an inverted residual up to its projection; see `block`."""
        expanded = self._expanded(features, name, block, 1, 1)
        layers = self.layers.changed(activation=block.activation)
        if self.depthwise_initializer is not None:
            layers = layers.changed(initializer=self.depthwise_initializer(block.kernel_size))
        name = f"{name}_depthwise"
        return expanded, layers.depthwise_block(expanded, name, block.kernel_size, stride=block.stride)

    def fused(self, features: tf.Tensor, name: str, block: Bottleneck) -> tuple[tf.Tensor, tf.Tensor]:
        """Add a fused block up to its projection; see `block`."""
        expanded = self._expanded(features, name, block, block.kernel_size, block.stride)
        return expanded, expanded

    def tucker(self, features: tf.Tensor, name: str, block: Bottleneck) -> tuple[tf.Tensor, tf.Tensor]:
        """Add a Tucker block up to its last convolution; see `block`."""
        ranks = (features.shape[-1] * block.ranks[0], self.channels(block.channels) * block.ranks[1])
        before, after = (self.rounded(rank) for rank in ranks)
        reduced = self.conv(features, f"{name}_reduce", before, activation=block.activation)
        spatial = self.conv(
            reduced,
            f"{name}_spatial",
            after,
            block.kernel_size,
            stride=block.stride,
            activation=block.activation,
        )
        return reduced, spatial

    def _expanded(
        self, features: tf.Tensor, name: str, block: Bottleneck, kernel_size: int, stride: int
    ) -> tf.Tensor:
        before = features.shape[-1]
        channels = self.rounded(before * block.expansion)
        if channels <= before:
            return features
        return self.conv(
            features, f"{name}_expand", channels, kernel_size, stride=stride, activation=block.activation
        )


_Inside = Callable[[BottleneckBuilder, tf.Tensor, str, Bottleneck], tuple[tf.Tensor, tf.Tensor]]
_INSIDE: dict[Kind, _Inside] = {
    "inverted": BottleneckBuilder.inverted,
    "fused": BottleneckBuilder.fused,
    "tucker": BottleneckBuilder.tucker,
}
