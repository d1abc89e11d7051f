"""Inception v2 and v3 as backbones, and their modules: parallel branches whose outputs are concatenated.

https://arxiv.org/abs/1409.4842; v2 with batch normalisation, https://arxiv.org/abs/1502.03167; v3,
https://arxiv.org/abs/1512.00567.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.layers.layer_hyperparams import ChannelOptions, InitializerOptions
from detection_core.parts.layers.layer_names import LayerName
from detection_core.parts.layers.network_layers import NetworkLayers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Convolution:
    """A convolution with normalisation and activation.

    Attributes:
        scope: its name in its branch in checkpoints of TF-Slim.
        channels: for a depth multiplier of 1.
        kernel_size: rows and columns.
        stride: rows and columns.
        padding: "same" or "valid".
        deviation: of the initial weights; 0: from the hyperparameters.
    """

    scope: str
    channels: int
    kernel_size: tuple[int, int]
    stride: int = 1
    padding: str = "same"
    deviation: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pooling:
    """A 3 x 3 pooling.

    Attributes:
        average: whether it is average, not max pooling.
        stride: rows and columns.
        padding: "same" or "valid".
    """

    average: bool = False
    stride: int = 1
    padding: str = "same"


Step = Convolution | Pooling | tuple[Convolution, ...]
"""The convolutions of a tuple take the same input; their outputs are concatenated."""
Module = Sequence[Sequence[Step]]
"""Branches, each a sequence of steps."""


def conv(scope: str, channels: int, **options: Any) -> Convolution:
    """Return a convolution; its scope ends with its kernel size, as `Conv2d_0b_1x7`."""
    rows, columns = map(int, scope.rpartition("_")[2].split("x"))
    return Convolution(scope=scope, channels=channels, kernel_size=(rows, columns), **options)


def convolutions(branch: Sequence[Step]) -> list[Convolution]:
    """Return a branch's convolutions in the order of their numbers."""
    found: list[Convolution] = []
    for step in branch:
        if isinstance(step, Convolution):
            found.append(step)
        elif isinstance(step, tuple):
            found.extend(step)
    return found


def scopes(modules: Mapping[str, Module]) -> dict[tuple[int, ...], str]:
    """Return (module, branch, place in the branch) of each convolution -> its scope."""
    return {
        (number, index, place): f"{name}/Branch_{index}/{convolution.scope}"
        for number, (name, module) in enumerate(modules.items())
        for index, branch in enumerate(module)
        for place, convolution in enumerate(convolutions(branch))
    }


def slim_scopes(
    stem: Sequence[Step], modules: Mapping[str, Module]
) -> Mapping[str, Callable[[LayerName], str]]:
    """Return `LayerName.unit` of each layer -> its scope in TF-Slim's checkpoints, below the backbone's."""
    mixed = scopes(modules)
    first = {number: step.scope for number, step in enumerate(stem) if isinstance(step, Convolution)}
    return {
        "backbone_stem": lambda name: "Conv2d_1a_7x7",
        "backbone_conv_N": lambda name: first[name.indices[0]],
        "backbone_mixed_N_N_N": lambda name: mixed[name.indices],
    }


class InceptionBuilder:
    """Adds modules to a network; the name of every layer starts with "backbone_".

    Args:
        layers: creates the layers, with the padding of each.
        options: channel counts.
    """

    def __init__(self, layers: NetworkLayers, options: ChannelOptions) -> None:
        self._layers = layers.under(layers.hyperparams)
        self._channels = options.channels

    def stem(self, inputs: tf.Tensor) -> tf.Tensor:
        """Add the first convolution of v2, a separable one with several filters per colour."""
        channels, layers = self._channels(STEM_CHANNELS), self._drawn(_FIRST)
        filters = min(channels // inputs.shape[-1], _MOST_FILTERS_A_COLOUR)
        features = layers.depthwise("backbone_stem_depthwise", 7, stride=2, multiplier=filters)(inputs)
        features = layers.conv("backbone_stem_pointwise", channels, 1)(features)
        return layers.norm_activation(features, "backbone_stem")

    def conv(self, features: tf.Tensor, name: str, convolution: Convolution) -> tf.Tensor:
        """Add a convolution with normalisation and activation."""
        return self._drawn(convolution.deviation).conv_block(
            features,
            name,
            self._channels(convolution.channels),
            convolution.kernel_size,
            stride=convolution.stride,
            padding=convolution.padding,
        )

    def pool(self, features: tf.Tensor, name: str, pooling: Pooling) -> tf.Tensor:
        """Add a pooling."""
        layers = tf_keras.layers
        kind = layers.AveragePooling2D if pooling.average else layers.MaxPooling2D
        return kind(3, strides=pooling.stride, padding=pooling.padding, name=name)(features)

    def module(self, features: tf.Tensor, number: int, module: Module) -> tf.Tensor:
        """Add a module, and concatenate its branches along the channels."""
        ends = []
        for index, branch in enumerate(module):
            ends += self._branch(features, f"backbone_mixed_{number}_{index}", branch)
        return tf_keras.layers.Concatenate(name=f"backbone_mixed_{number}")(ends)

    def modules(
        self, features: tf.Tensor, modules: Mapping[str, Module], names: Sequence[str]
    ) -> dict[str, tf.Tensor]:
        """Add the named modules, each after the other; return the output of each."""
        outputs = {}
        for number, (name, module) in enumerate(modules.items()):
            if name in names:
                outputs[name] = features = self.module(features, number, module)
        return outputs

    def levels(
        self, features: tf.Tensor, modules: Mapping[str, Module], ends: Mapping[str, int]
    ) -> dict[int, tf.Tensor]:
        """Add all modules; return the outputs of those that end a level, by level."""
        outputs = self.modules(features, modules, tuple(modules))
        return {level: outputs[name] for name, level in ends.items()}

    def _branch(self, features: tf.Tensor, name: str, branch: Sequence[Step]) -> list[tf.Tensor]:
        ends, place = [features], 0
        for step in branch:
            if isinstance(step, Pooling):
                ends = [self.pool(ends[0], f"{name}_pool", step)]
                continue
            together = step if isinstance(step, tuple) else (step,)
            ends = [self.conv(ends[0], f"{name}_{place + i}", made) for i, made in enumerate(together)]
            place += len(together)
        return ends

    def _drawn(self, deviation: float) -> NetworkLayers:
        """Return layers whose initial weights have this deviation."""
        if not deviation:
            return self._layers
        initializer = InitializerOptions(class_name="TruncatedNormal", arguments={"stddev": deviation})
        return self._layers.changed(initializer=initializer)


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
    last = [conv("Conv2d_1a_3x3", channels, stride=2) for _, channels in (first, second)]
    return (
        (_shrunk(first[0]), last[0]),
        (_shrunk(second[0]), conv("Conv2d_0b_3x3", second[1]), last[1]),
        (Pooling(stride=2),),
    )


V2_MODULES: Mapping[str, Module] = {
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
V2_STEM = (conv("Conv2d_2b_1x1", 64, deviation=_POOLED), conv("Conv2d_2c_3x3", 192))
"""Convolutions between the first one and the modules."""
V2_LEVELS = {"Mixed_3c": 3, "Mixed_4c": 4, "Mixed_5c": 5}
"""Module -> level that detectors take from it."""


def inception_v2(inputs: tf.Tensor, layers: NetworkLayers, options: ChannelOptions) -> Endpoints:
    """Build the backbone on inputs float32 [B, H, W, 3], in [-1, 1]. Levels 1 to 5."""
    builder = InceptionBuilder(layers, options)
    levels, features = _v2_stem(builder, inputs)
    return Endpoints(levels | builder.levels(features, V2_MODULES, V2_LEVELS))


def _v2_stem(builder: InceptionBuilder, inputs: tf.Tensor) -> tuple[dict[int, tf.Tensor], tf.Tensor]:
    """Add the layers before the modules; return levels 1 and 2, and the modules' input of stride 8."""
    features = builder.stem(inputs)
    levels = {1: features}
    features = builder.pool(features, "backbone_pool_0", Pooling(stride=2))
    for number, convolution in enumerate(V2_STEM):
        features = builder.conv(features, f"backbone_conv_{number}", convolution)
    levels[2] = features
    return levels, builder.pool(features, "backbone_pool_1", Pooling(stride=2))


V2_REGION_MODULES = ("Mixed_5a", "Mixed_5b", "Mixed_5c")
"""Modules of a two-stage detector's second stage."""


def inception_v2_proposals(inputs: tf.Tensor, layers: NetworkLayers, options: ChannelOptions) -> tf.Tensor:
    """Build the backbone on inputs float32 [B, H, W, 3], in [-1, 1], up to features of stride 16."""
    builder = InceptionBuilder(layers, options)
    _, features = _v2_stem(builder, inputs)
    names = [name for name in V2_MODULES if name not in V2_REGION_MODULES]
    return builder.modules(features, V2_MODULES, names)[names[-1]]


def inception_v2_regions(regions: tf.Tensor, layers: NetworkLayers, options: ChannelOptions) -> tf.Tensor:
    """Build the modules after `inception_v2_proposals` on features of regions [N, s, s, K]."""
    builder = InceptionBuilder(layers, options)
    return builder.modules(regions, V2_MODULES, V2_REGION_MODULES)[V2_REGION_MODULES[-1]]


def _halved(scope: str, channels: int) -> Convolution:
    return Convolution(scope=scope, channels=channels, kernel_size=(3, 3), stride=2, padding="valid")


_POOLING = Pooling(average=True)
_HALVING = Pooling(stride=2, padding="valid")

V3_STEM: tuple[Step, ...] = (
    _halved("Conv2d_1a_3x3", 32),
    conv("Conv2d_2a_3x3", 32, padding="valid"),
    conv("Conv2d_2b_3x3", 64),
    _HALVING,
    conv("Conv2d_3b_1x1", 80, padding="valid"),
    conv("Conv2d_4a_3x3", 192, padding="valid"),
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
V3_MODULES: Mapping[str, Module] = {
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
V3_LEVELS = {"Mixed_5d": 3, "Mixed_6e": 4, "Mixed_7c": 5}
"""Module -> level that it ends."""


def inception_v3(inputs: tf.Tensor, layers: NetworkLayers, options: ChannelOptions) -> Endpoints:
    """Build the backbone on inputs float32 [B, H, W, 3], in [-1, 1]; at least 75 rows and columns.

    Returns:
        Levels 3 to 5; maps are smaller than the input divided by the stride, as borders are not padded.
    """
    builder = InceptionBuilder(layers, options)
    features = inputs
    for number, step in enumerate(V3_STEM):
        if isinstance(step, Convolution):
            features = builder.conv(features, f"backbone_conv_{number}", step)
        elif isinstance(step, Pooling):
            features = builder.pool(features, f"backbone_pool_{number}", step)
    return Endpoints(builder.levels(features, V3_MODULES, V3_LEVELS))
