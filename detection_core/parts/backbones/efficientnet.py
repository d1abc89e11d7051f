"""EfficientNet-B0 to B8, L2 and Lite0 to Lite4, as backbones.

https://arxiv.org/abs/1905.11946; Lite has no squeeze-and-excite and does not scale its stem and outer stages.
"""

import dataclasses
import math

import tensorflow as tf
import tf_keras

from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.backbones.mobilenet import round_channels
from detection_core.parts.layers import layer_hyperparams
from detection_core.parts.layers.keras_layers import stochastic_depth
from detection_core.parts.layers.network_layers import NetworkLayers, squeeze_excite

# Table 1: (kernel size, expansion, channels, number of blocks, stride of the first block) of B0
STAGES = (
    (3, 1, 16, 1, 1),
    (3, 6, 24, 2, 2),
    (5, 6, 40, 2, 2),
    (3, 6, 80, 3, 2),
    (5, 6, 112, 3, 1),
    (5, 6, 192, 4, 2),
    (3, 6, 320, 1, 1),
)
STEM_CHANNELS = 32
L2 = 100
# Version -> factors of the channel counts and of the numbers of blocks.
SCALES = {
    0: (1.0, 1.0),
    1: (1.0, 1.1),
    2: (1.1, 1.2),
    3: (1.2, 1.4),
    4: (1.4, 1.8),
    5: (1.6, 2.2),
    6: (1.8, 2.6),
    7: (2.0, 3.1),
    8: (2.2, 3.6),
    L2: (4.3, 5.3),
}
# (stage, block) -> its level. The Object Detection API takes these blocks in every version. In deeper
# versions, more blocks of the same stride follow, and the last ones are omitted.
LEVEL_ENDS = {(0, 0): 1, (1, 1): 2, (2, 1): 3, (4, 2): 4, (6, 0): 5}
# In google/automl's detectors, a level is the end of a stage at any depth.
LAST_STAGES = {0: 1, 1: 2, 2: 3, 4: 4, 6: 5}
MAX_LEVEL = 5
# Channels of the squeezed features, as a fraction of a block's input channels.
SQUEEZE_RATIO = 0.25
DROP_RATE = 0.2

# Used where the config does not override it.
DEFAULT_HYPERPARAMS = layer_hyperparams.LayerHyperparams(
    initializer=layer_hyperparams.InitializerOptions(
        class_name="VarianceScaling",
        arguments={"scale": 2.0, "mode": "fan_out", "distribution": "truncated_normal"},
    ),
    regularizer=layer_hyperparams.Regularizer(kind="l2", weight=0.00001),
    batch_norm=layer_hyperparams.BatchNormOptions(momentum=0.99, epsilon=0.001, center=True, scale=True),
    activation="swish",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EfficientNetOptions:
    """Shape of the backbone.

    Attributes:
        version: 0 to 8, or L2.
        max_level: 1 to 5, the coarsest level needed; nothing is built after it.
        lite: no gates; a stem as in B0, and first and last stages with as many blocks as in B0.
        whole_stages: whether levels are the ends of stages, rather than the blocks of `LEVEL_ENDS`.
        drop_rate: probability of dropping the last block in training; it grows linearly from 0 at the first.
    """

    version: int
    max_level: int = MAX_LEVEL
    lite: bool = False
    whole_stages: bool = False
    drop_rate: float = DROP_RATE

    @property
    def stem_channels(self) -> int:
        """Channels of the first convolution."""
        return STEM_CHANNELS if self.lite else self.channels(STEM_CHANNELS)

    def channels(self, nominal: int) -> int:
        """Return the channels of a layer that has `nominal` in B0."""
        return round_channels(nominal * SCALES[self.version][0])

    def blocks(self, stage: int) -> int:
        """Return the number of blocks of a stage."""
        nominal = STAGES[stage][3]
        fixed = self.lite and stage in (0, len(STAGES) - 1)
        return nominal if fixed else math.ceil(nominal * SCALES[self.version][1])

    def level(self, stage: int, block: int) -> int | None:
        """Return the level of a block, or None."""
        if not self.whole_stages:
            return LEVEL_ENDS.get((stage, block))
        return LAST_STAGES.get(stage) if block == self.blocks(stage) - 1 else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Block:
    name: str
    kernel_size: int
    expansion: int
    channels: int
    stride: int
    drop_rate: float


def _blocks(options: EfficientNetOptions) -> dict[tuple[int, int], _Block]:
    """List all blocks by stage and number, unused ones included, as they count for drop rates."""
    total = sum(options.blocks(stage) for stage in range(len(STAGES)))
    blocks: dict[tuple[int, int], _Block] = {}
    for stage, (kernel_size, expansion, channels, _, first_stride) in enumerate(STAGES):
        for repeat in range(options.blocks(stage)):
            blocks[stage, repeat] = _Block(
                name=f"backbone_block_{stage}_{repeat}",
                kernel_size=kernel_size,
                expansion=expansion,
                channels=options.channels(channels),
                stride=first_stride if repeat == 0 else 1,
                drop_rate=options.drop_rate * len(blocks) / total,
            )
    return blocks


def _add_block(features: tf.Tensor, layers: NetworkLayers, block: _Block, *, gated: bool) -> tf.Tensor:
    """Add an inverted residual block, with squeeze-and-excite if `gated`."""
    name, shortcut, before = block.name, features, features.shape[-1]
    if block.expansion > 1:
        expanded = before * block.expansion
        features = layers.conv_block(features, f"{name}_expand", expanded, 1, use_bias=False)
    # Published models regularize the biases of the gates, but no depthwise kernels.
    unregularized = layers.under(dataclasses.replace(layers.hyperparams, regularizer=None))
    depthwise = unregularized.depthwise(f"{name}_depthwise", block.kernel_size, stride=block.stride)
    features = layers.norm_activation(depthwise(features), f"{name}_depthwise")
    if gated:
        squeezed, activation = max(1, int(before * SQUEEZE_RATIO)), layers.hyperparams.activation
        features = squeeze_excite(features, layers, name, squeezed, activation, regularize_biases=True)
    features = layers.conv_norm(features, f"{name}_project", block.channels, 1, use_bias=False)
    if block.stride > 1 or before != block.channels:
        return features
    if block.drop_rate > 0:
        features = stochastic_depth(block.drop_rate, f"{name}_drop")(features)
    return tf_keras.layers.Add(name=f"{name}_add")([features, shortcut])


def efficientnet(inputs: tf.Tensor, layers: NetworkLayers, options: EfficientNetOptions) -> Endpoints:
    """Build the backbone on inputs float32 [B, H, W, 3], standardised with ImageNet's means and deviations.

    Returns:
        Levels 1 to `max_level`.
    """
    features = layers.conv_block(inputs, "backbone_stem", options.stem_channels, 3, stride=2, use_bias=False)
    levels: dict[int, tf.Tensor] = {}
    for position, block in _blocks(options).items():
        features = _add_block(features, layers, block, gated=not options.lite)
        level = options.level(*position)
        if level is not None:
            levels[level] = features
        if level == options.max_level:
            break
    return Endpoints(levels)
