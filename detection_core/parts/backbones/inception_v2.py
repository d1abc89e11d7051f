"""Inception v2 with batch normalisation, https://arxiv.org/abs/1502.03167, as a backbone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.backbones.inception import (
    Convolution,
    InceptionBuilder,
    Module,
    Pooling,
    conv,
)
from detection_core.parts.backbones.mobilenet import MobileNetOptions
from detection_core.parts.layers.layer_hyperparams import InitializerOptions
from detection_core.parts.layers.network_layers import NetworkLayers

STEM_CHANNELS = 64
_MOST_FILTERS_A_COLOUR = 8
# Deviations of initial weights: of 1x1 convolutions before larger ones, after a pooling, of the stem.
_SHRINKING, _POOLED, _FIRST = 0.09, 0.1, 1.0


def _shrunk(channels: int) -> Convolution:
    return conv("Conv2d_0a_1x1", channels, deviation=_SHRINKING)


def _module(
    first: int, second: tuple[int, int], third: tuple[int, int], pooled: int, *, average: bool = True
) -> Module:
    """Return a module of the paper's figure 5 without a stride: 1x1, 3x3, twice 3x3, pooling."""
    return (
        (conv("Conv2d_0a_1x1", first),),
        (_shrunk(second[0]), conv("Conv2d_0b_3x3", second[1])),
        (_shrunk(third[0]), conv("Conv2d_0b_3x3", third[1]), conv("Conv2d_0c_3x3", third[1])),
        (Pooling(average=average), conv("Conv2d_0b_1x1", pooled, deviation=_POOLED)),
    )


def _halving(first: tuple[int, int], second: tuple[int, int]) -> Module:
    """Return a module with a stride: 3x3, twice 3x3, pooling."""
    last = [
        Convolution(scope="Conv2d_1a_3x3", channels=c, kernel_size=(3, 3), stride=2)
        for _, c in (first, second)
    ]
    return (
        (_shrunk(first[0]), last[0]),
        (_shrunk(second[0]), conv("Conv2d_0b_3x3", second[1]), last[1]),
        (Pooling(stride=2),),
    )


MODULES: Mapping[str, Module] = {
    "Mixed_3b": _module(64, (64, 64), (64, 96), 32),
    "Mixed_3c": _module(64, (64, 96), (64, 96), 64),
    "Mixed_4a": _halving((128, 160), (64, 96)),
    "Mixed_4b": _module(224, (64, 96), (96, 128), 128),
    "Mixed_4c": _module(192, (96, 128), (96, 128), 128),
    "Mixed_4d": _module(160, (128, 160), (128, 160), 96),
    "Mixed_4e": _module(96, (128, 192), (160, 192), 96),
    "Mixed_5a": _halving((128, 192), (192, 256)),
    "Mixed_5b": _module(352, (192, 320), (160, 224), 128),
    "Mixed_5c": _module(352, (192, 320), (192, 224), 128, average=False),
}
STEM = (conv("Conv2d_2b_1x1", 64, deviation=_POOLED), conv("Conv2d_2c_3x3", 192))
"""Convolutions between the first one and the modules."""
LEVELS = {"Mixed_3c": 3, "Mixed_4c": 4, "Mixed_5c": 5}
"""Module -> level that detectors take from it."""


def inception_v2(inputs: tf.Tensor, layers: NetworkLayers, options: MobileNetOptions) -> Endpoints:
    """Build the backbone on inputs float32 [B, H, W, 3], in [-1, 1].

    Returns:
        Levels 1 to 5.
    """

    def channels(nominal: int) -> int:
        return max(int(nominal * options.depth_multiplier), options.min_depth)

    builder = InceptionBuilder(layers, channels)
    features = _first(inputs, layers, channels(STEM_CHANNELS))
    levels = {1: features}
    features = builder.pool(features, "backbone_pool_0", Pooling(stride=2))
    for number, convolution in enumerate(STEM):
        features = builder.conv(features, f"backbone_conv_{number}", convolution)
    levels[2] = features
    features = builder.pool(features, "backbone_pool_1", Pooling(stride=2))
    for number, (name, module) in enumerate(MODULES.items()):
        features = builder.module(features, number, module)
        if name in LEVELS:
            levels[LEVELS[name]] = features
    return Endpoints(levels)


def _first(inputs: tf.Tensor, layers: NetworkLayers, channels: int) -> tf.Tensor:
    """Add the first convolution, a separable one with several filters per colour."""
    initializer = InitializerOptions(class_name="TruncatedNormal", arguments={"stddev": _FIRST})
    drawn = layers.under(dataclasses.replace(layers.hyperparams, initializer=initializer))
    filters = min(channels // inputs.shape[-1], _MOST_FILTERS_A_COLOUR)
    features = drawn.depthwise("backbone_stem_depthwise", 7, stride=2, multiplier=filters)(inputs)
    features = drawn.conv("backbone_stem_pointwise", channels, 1)(features)
    return layers.norm_activation(features, "backbone_stem")
