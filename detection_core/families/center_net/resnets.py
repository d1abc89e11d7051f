"""ResNets as tf_keras.applications builds them, https://arxiv.org/abs/1512.03385 and 1603.05027.

They differ from `parts.backbones.resnet_v1` in biases, in padding and in where a stage halves its map, so
that published weights of the two do not fit each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf
import tf_keras

from detection_core.families.center_net.tracked_layers import TrackedLayers
from detection_core.parts.layers.layer_hyperparams import BatchNormOptions, LayerHyperparams

HYPERPARAMS = LayerHyperparams(
    batch_norm=BatchNormOptions(momentum=0.99, epsilon=1.001e-5, scale=True), activation="relu"
)
BLOCKS: Mapping[int, tuple[int, ...]] = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
}
CHANNELS = (64, 128, 256, 512)

Block = Callable[[tf.Tensor, TrackedLayers, int, int, bool], tf.Tensor]
"""(features, layers, channels, stride, whether the shortcut is projected) -> features."""


def resnet_v1(inputs: tf.Tensor, layers: TrackedLayers, depth: int) -> list[tf.Tensor]:
    """Build the backbone on float32 [B, H, W, 3]; return the maps of strides 4, 8, 16 and 32.

    A stage's first block halves the map.
    """
    features = layers.conv(inputs, "stem", 64, 7, stride=2)
    features = _pool(layers.relu(layers.norm(features, "stem_bn"), "stem"), layers)
    maps: list[tf.Tensor] = []
    for stage, (count, channels) in enumerate(zip(BLOCKS[depth], CHANNELS, strict=True)):
        for index in range(count):
            stride = 2 if index == 0 and stage else 1
            block = layers.under(f"block_{stage}_{index}")
            features = _bottleneck_v1(features, block, channels, stride, index == 0)
        maps.append(features)
    return maps


def resnet_v2(inputs: tf.Tensor, layers: TrackedLayers, depth: int) -> list[tf.Tensor]:
    """Build the backbone of version 2; return the map of stride 32, before the last normalisation."""
    return _preactivated(inputs, layers, depth, _bottleneck_v2, (2, 2, 2, 1))[-1:]


def resnet_basic(inputs: tf.Tensor, layers: TrackedLayers, depth: int) -> list[tf.Tensor]:
    """Build the backbone of 18 or 34 layers; return the maps of strides 4, 8, 16 and 32.

    Blocks have two convolutions and normalise before them, as in version 2.
    """
    return _preactivated(inputs, layers, depth, _basic, (1, 2, 2, 2))


def _pool(features: tf.Tensor, layers: TrackedLayers) -> tf.Tensor:
    padded = tf_keras.layers.ZeroPadding2D(1, name=layers.layer_name("pool_pad"))(features)
    return tf_keras.layers.MaxPooling2D(3, strides=2, name=layers.layer_name("pool"))(padded)


def _preactivated(
    inputs: tf.Tensor, layers: TrackedLayers, depth: int, block: Block, strides: tuple[int, ...]
) -> list[tf.Tensor]:
    """Build a backbone of blocks that normalise first; a stage's last block has its stride."""
    features = _pool(layers.conv(inputs, "stem", 64, 7, stride=2), layers)
    maps: list[tf.Tensor] = []
    for stage, (count, channels, stride) in enumerate(zip(BLOCKS[depth], CHANNELS, strides, strict=True)):
        for index in range(count):
            inner = layers.under(f"block_{stage}_{index}")
            features = block(features, inner, channels, stride if index == count - 1 else 1, index == 0)
        maps.append(features)
    return maps


def _step(
    features: tf.Tensor,
    layers: TrackedLayers,
    name: str,
    channels: int,
    kernel: int,
    stride: int = 1,
    *,
    use_bias: bool = False,
) -> tf.Tensor:
    """Add a convolution, its normalisation and activation."""
    features = layers.conv(features, name, channels, kernel, stride=stride, use_bias=use_bias)
    return layers.relu(layers.norm(features, f"{name}_bn"), name)


def _bottleneck_v1(
    features: tf.Tensor, layers: TrackedLayers, channels: int, stride: int, projected: bool
) -> tf.Tensor:
    shortcut = features
    if projected:
        shortcut = layers.conv(features, "shortcut", 4 * channels, 1, stride=stride)
        shortcut = layers.norm(shortcut, "shortcut_bn")
    inner = _step(features, layers, "reduce", channels, 1, stride, use_bias=True)
    inner = _step(inner, layers, "spatial", channels, 3, use_bias=True)
    inner = layers.norm(layers.conv(inner, "expand", 4 * channels, 1), "expand_bn")
    return layers.relu(_add(shortcut, inner, layers), "add")


def _bottleneck_v2(
    features: tf.Tensor, layers: TrackedLayers, channels: int, stride: int, projected: bool
) -> tf.Tensor:
    active, shortcut = _entry(features, layers, 4 * channels, stride, projected)
    inner = _step(active, layers, "reduce", channels, 1)
    inner = _step(inner, layers, "spatial", channels, 3, stride)
    return _add(shortcut, layers.conv(inner, "expand", 4 * channels, 1), layers)


def _basic(
    features: tf.Tensor, layers: TrackedLayers, channels: int, stride: int, projected: bool
) -> tf.Tensor:
    active, shortcut = _entry(features, layers, channels, stride, projected)
    inner = _step(active, layers, "first", channels, 3)
    return _add(shortcut, _step(inner, layers, "second", channels, 3, stride), layers)


def _entry(
    features: tf.Tensor, layers: TrackedLayers, channels: int, stride: int, projected: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the normalised input of a block, and its shortcut."""
    active = layers.relu(layers.norm(features, "preact_bn"), "preact")
    if projected:
        return active, layers.conv(active, "shortcut", channels, 1)
    if stride == 1:
        return active, features
    name = layers.layer_name("subsample")
    return active, tf_keras.layers.MaxPooling2D(1, strides=stride, name=name)(features)


def _add(shortcut: tf.Tensor, inner: tf.Tensor, layers: TrackedLayers) -> tf.Tensor:
    return tf_keras.layers.Add(name=layers.layer_name("sum"))([shortcut, inner])
