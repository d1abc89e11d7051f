"""What both MobileNets share, https://arxiv.org/abs/1704.04861 and https://arxiv.org/abs/1801.04381."""

from __future__ import annotations

import dataclasses

from detection_core.parts.layers.layer_hyperparams import (
    BatchNormOptions,
    InitializerOptions,
    LayerHyperparams,
    Regularizer,
)

DEFAULT_HYPERPARAMS = LayerHyperparams(
    initializer=InitializerOptions(class_name="TruncatedNormal", arguments={"stddev": 0.09}),
    regularizer=Regularizer(kind="l2", weight=0.00004),
    batch_norm=BatchNormOptions(momentum=0.9997, epsilon=0.001, center=True, scale=True),
    activation="relu6",
)
"""What a MobileNet is made with where the config does not override it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MobileNetOptions:
    """Shape of a MobileNet.

    Attributes:
        depth_multiplier: factor of all channel counts; the last layer of MobileNet v2 never grows above 1280
            channels.
        min_depth: lower bound of channel counts, of MobileNet v2's expansions excepted.
    """

    depth_multiplier: float = 1.0
    min_depth: int = 16
