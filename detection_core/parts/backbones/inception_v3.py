"""Inception v3, https://arxiv.org/abs/1512.00567, as a backbone."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.backbones.inception import (
    Convolution,
    InceptionBuilder,
    Module,
    Pooling,
    Step,
    conv,
)
from detection_core.parts.backbones.mobilenet import MobileNetOptions
from detection_core.parts.layers.network_layers import NetworkLayers


def _halved(scope: str, channels: int) -> Convolution:
    return Convolution(scope=scope, channels=channels, kernel_size=(3, 3), stride=2, padding="valid")


_POOLING = Pooling(average=True)
_HALVING = Pooling(stride=2, padding="valid")

STEM: tuple[Step, ...] = (
    _halved("Conv2d_1a_3x3", 32),
    Convolution(scope="Conv2d_2a_3x3", channels=32, kernel_size=(3, 3), padding="valid"),
    conv("Conv2d_2b_3x3", 64),
    _HALVING,
    Convolution(scope="Conv2d_3b_1x1", channels=80, kernel_size=(1, 1), padding="valid"),
    Convolution(scope="Conv2d_4a_3x3", channels=192, kernel_size=(3, 3), padding="valid"),
    _HALVING,
)
"""The layers before the modules."""


def _of_35(pooled: int, wide: tuple[str, str] = ("Conv2d_0a_1x1", "Conv2d_0b_5x5")) -> Module:
    """Return a module of the paper's figure 5, with one 5x5 convolution."""
    return (
        (conv("Conv2d_0a_1x1", 64),),
        (conv(wide[0], 48), conv(wide[1], 64)),
        (conv("Conv2d_0a_1x1", 64), conv("Conv2d_0b_3x3", 96), conv("Conv2d_0c_3x3", 96)),
        (_POOLING, conv("Conv2d_0b_1x1", pooled)),
    )


def _of_17(inner: int) -> Module:
    """Return a module of the paper's figure 6, with 1x7 and 7x1 kernels."""
    return (
        (conv("Conv2d_0a_1x1", 192),),
        (conv("Conv2d_0a_1x1", inner), conv("Conv2d_0b_1x7", inner), conv("Conv2d_0c_7x1", 192)),
        (
            conv("Conv2d_0a_1x1", inner),
            conv("Conv2d_0b_7x1", inner),
            conv("Conv2d_0c_1x7", inner),
            conv("Conv2d_0d_7x1", inner),
            conv("Conv2d_0e_1x7", 192),
        ),
        (_POOLING, conv("Conv2d_0b_1x1", 192)),
    )


def _of_8(column: str) -> Module:
    """Return a module of the paper's figure 7, whose branches end in parallel 1x3 and 3x1 convolutions."""
    return (
        (conv("Conv2d_0a_1x1", 320),),
        (conv("Conv2d_0a_1x1", 384), (conv("Conv2d_0b_1x3", 384), conv(column, 384))),
        (
            conv("Conv2d_0a_1x1", 448),
            conv("Conv2d_0b_3x3", 384),
            (conv("Conv2d_0c_1x3", 384), conv("Conv2d_0d_3x1", 384)),
        ),
        (_POOLING, conv("Conv2d_0b_1x1", 192)),
    )


# Some scopes do not describe the convolution; they match published checkpoints.
MODULES: Mapping[str, Module] = {
    "Mixed_5b": _of_35(32),
    "Mixed_5c": _of_35(64, ("Conv2d_0b_1x1", "Conv_1_0c_5x5")),
    "Mixed_5d": _of_35(64),
    "Mixed_6a": (
        (_halved("Conv2d_1a_1x1", 384),),
        (conv("Conv2d_0a_1x1", 64), conv("Conv2d_0b_3x3", 96), _halved("Conv2d_1a_1x1", 96)),
        (_HALVING,),
    ),
    "Mixed_6b": _of_17(128),
    "Mixed_6c": _of_17(160),
    "Mixed_6d": _of_17(160),
    "Mixed_6e": _of_17(192),
    "Mixed_7a": (
        (conv("Conv2d_0a_1x1", 192), _halved("Conv2d_1a_3x3", 320)),
        (
            conv("Conv2d_0a_1x1", 192),
            conv("Conv2d_0b_1x7", 192),
            conv("Conv2d_0c_7x1", 192),
            _halved("Conv2d_1a_3x3", 192),
        ),
        (_HALVING,),
    ),
    "Mixed_7b": _of_8("Conv2d_0b_3x1"),
    "Mixed_7c": _of_8("Conv2d_0c_3x1"),
}
LEVELS = {"Mixed_5d": 3, "Mixed_6e": 4, "Mixed_7c": 5}
"""Module -> level that it ends."""


def inception_v3(inputs: tf.Tensor, layers: NetworkLayers, options: MobileNetOptions) -> Endpoints:
    """Build the backbone on inputs float32 [B, H, W, 3], in [-1, 1]; at least 75 rows and columns.

    Returns:
        Levels 3 to 5; maps are smaller than the input divided by the stride, as borders are not padded.
    """

    def channels(nominal: int) -> int:
        return max(int(nominal * options.depth_multiplier), options.min_depth)

    builder = InceptionBuilder(layers, channels)
    features, levels = inputs, {}
    for number, step in enumerate(STEM):
        if isinstance(step, Convolution):
            features = builder.conv(features, f"backbone_conv_{number}", step)
        elif isinstance(step, Pooling):
            features = builder.pool(features, f"backbone_pool_{number}", step)
    for number, (name, module) in enumerate(MODULES.items()):
        features = builder.module(features, number, module)
        if name in LEVELS:
            levels[LEVELS[name]] = features
    return Endpoints(levels)
