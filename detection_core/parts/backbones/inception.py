"""Inception modules of v2 and v3: parallel branches whose outputs are concatenated.

https://arxiv.org/abs/1409.4842
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.layer_hyperparams import InitializerOptions
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


def conv(scope: str, channels: int, *, deviation: float = 0.0) -> Convolution:
    """Return a convolution of stride 1; its scope ends with its kernel size, as `Conv2d_0b_1x7`."""
    rows, _, columns = scope.rpartition("_")[2].partition("x")
    return Convolution(
        scope=scope, channels=channels, kernel_size=(int(rows), int(columns)), deviation=deviation
    )


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


class InceptionBuilder:
    """Adds modules to a network; the name of every layer starts with "backbone_".

    Args:
        layers: creates the layers, with the padding of each.
        channels: nominal channel count -> the count.
    """

    def __init__(self, layers: NetworkLayers, channels: Callable[[int], int]) -> None:
        self._layers = layers.under(layers.hyperparams)
        self._channels = channels

    def conv(self, features: tf.Tensor, name: str, convolution: Convolution) -> tf.Tensor:
        """Add a convolution with normalisation and activation."""
        layers = self._layers
        made = self._drawn(convolution.deviation).conv(
            name,
            self._channels(convolution.channels),
            convolution.kernel_size,
            stride=convolution.stride,
            padding=convolution.padding,
        )
        return layers.norm_activation(made(features), name)

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
        layers = self._layers
        if not deviation:
            return layers
        initializer = InitializerOptions(class_name="TruncatedNormal", arguments={"stddev": deviation})
        return layers.under(dataclasses.replace(layers.hyperparams, initializer=initializer))
