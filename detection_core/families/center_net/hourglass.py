"""Hourglass networks, https://arxiv.org/abs/1603.06937, as CenterNet has them.

An encoder-decoder halves the map several times and adds each finer map on the way back. Hourglass-104 has two
of them in a row, and each has its own heads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import tensorflow as tf
import tf_keras

from detection_core.families.center_net.tracked_layers import TrackedLayers
from detection_core.parts.layers.layer_hyperparams import BatchNormOptions, LayerHyperparams

HYPERPARAMS = LayerHyperparams(
    batch_norm=BatchNormOptions(momentum=0.1, epsilon=1e-5, scale=True, synchronized=True), activation="relu"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HourglassOptions:
    """Shape of a network.

    Attributes:
        stem_channels: of the first convolution.
        channels: of each scale, finest first.
        blocks: residual blocks of each scale.
        stacks: encoder-decoders in a row.
    """

    stem_channels: int
    channels: tuple[int, ...]
    blocks: tuple[int, ...]
    stacks: int = 1


HOURGLASSES: Mapping[int, HourglassOptions] = {
    10: HourglassOptions(stem_channels=32, channels=(64, 64), blocks=(1, 1)),
    20: HourglassOptions(stem_channels=48, channels=(96, 96, 144), blocks=(1, 2, 2)),
    32: HourglassOptions(stem_channels=48, channels=(96, 96, 144, 144), blocks=(2, 2, 2, 2)),
    52: HourglassOptions(
        stem_channels=64, channels=(128, 128, 192, 192, 192, 256), blocks=(2, 2, 2, 2, 2, 4)
    ),
    104: HourglassOptions(
        stem_channels=128, channels=(256, 256, 384, 384, 384, 512), blocks=(2, 2, 2, 2, 2, 4), stacks=2
    ),
}
"""Number of layers -> shape."""


def hourglass(inputs: tf.Tensor, layers: TrackedLayers, options: HourglassOptions) -> list[tf.Tensor]:
    """Build the network on float32 [B, H, W, 3].

    Returns:
        The map of each stack, [B, H / 4, W / 4, channels].
    """
    width = options.channels[0]
    stem = layers.under("downsample_input")
    features = _conv(inputs, stem.under("conv_block"), options.stem_channels, 7, stride=2)
    features = _residual(features, stem.under("residual_block"), width, stride=2, projected=True)
    maps: list[tf.Tensor] = []
    for index in range(options.stacks):
        inner = _encoder_decoder(
            features, layers.under(f"hourglass_network/{index}"), options.channels, options.blocks
        )
        maps.append(_conv(inner, layers.under(f"output_conv/{index}"), width, 3))
        if index + 1 < options.stacks:
            before = _conv(features, layers.under(f"intermediate_conv1/{index}"), width, 1, activate=False)
            after = _conv(maps[-1], layers.under(f"intermediate_conv2/{index}"), width, 1, activate=False)
            mixed = layers.relu(_add(before, after, layers, f"mix/{index}"), f"mix/{index}")
            features = _residual(mixed, layers.under(f"intermediate_residual/{index}"), width)
    return maps


def _add(first: tf.Tensor, second: tf.Tensor, layers: TrackedLayers, name: str) -> tf.Tensor:
    return tf_keras.layers.Add(name=layers.layer_name(f"{name}/add"))([first, second])


def _conv(
    features: tf.Tensor,
    layers: TrackedLayers,
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    activate: bool = True,
) -> tf.Tensor:
    """Add a convolution and its normalisation; the padding does not depend on the input's size."""
    features = layers.conv(features, "conv", channels, kernel, stride=stride, use_bias=False)
    features = layers.norm(features, "norm")
    return layers.relu(features, "relu") if activate else features


def _residual(
    features: tf.Tensor, layers: TrackedLayers, channels: int, *, stride: int = 1, projected: bool = False
) -> tf.Tensor:
    """Add a residual block; `projected` puts a convolution on its shortcut."""
    inner = _conv(features, layers.under("conv_block"), channels, 3, stride=stride)
    inner = layers.norm(layers.conv(inner, "conv", channels, 3, use_bias=False), "norm")
    if projected:
        features = _conv(features, layers.under("skip"), channels, 1, stride=stride, activate=False)
    return layers.relu(_add(inner, features, layers, "sum"), "relu")


def _blocks(
    features: tf.Tensor,
    layers: TrackedLayers,
    count: int,
    channels: tuple[int, int],
    *,
    stride: int = 1,
    projected: bool = False,
) -> tf.Tensor:
    """Add residual blocks: `channels` are those of all but the last, and of the last."""
    inner, last = channels
    for index in range(count - 1):
        first = index == 0
        features = _residual(
            features,
            layers.under(str(index)),
            inner,
            stride=stride if first else 1,
            projected=first and (stride > 1 or projected),
        )
    stride = stride if count == 1 else 1
    projected = stride > 1 if count == 1 else inner != last
    return _residual(features, layers.under(str(count - 1)), last, stride=stride, projected=projected)


def _encoder_decoder(
    features: tf.Tensor, layers: TrackedLayers, channels: Sequence[int], blocks: Sequence[int]
) -> tf.Tensor:
    """Add the blocks of a scale around those of the coarser ones."""
    own, coarser, count = channels[0], channels[1], blocks[0]
    kept = _blocks(features, layers.under("encoder_block1"), count, (own, own))
    inner = _blocks(
        features,
        layers.under("encoder_block2"),
        count,
        (coarser, coarser),
        stride=2,
        projected=own != coarser,
    )
    if len(channels) > 2:
        inner = _encoder_decoder(inner, layers.under("inner_block/0"), channels[1:], blocks[1:])
    else:
        inner = _blocks(inner, layers.under("inner_block"), blocks[1], (coarser, coarser))
    inner = _blocks(inner, layers.under("decoder_block"), count, (coarser, own))
    enlarged = tf_keras.layers.UpSampling2D(2, name=layers.layer_name("upsample"))(inner)
    return _add(kept, enlarged, layers, "merge")
