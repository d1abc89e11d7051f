"""Hyperparameters of layers, from initialiser to activation, and the regularization loss."""

import dataclasses
import logging
import zlib
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.layer_names import parse_variable_name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Regularizer:
    """The loss of a layer's weights: the sum of absolute values, "l1", or half that of squares, "l2"."""

    kind: str
    weight: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class InitializerOptions:
    """A tf_keras initialiser: class name, and the constructor's arguments without the seed."""

    class_name: str
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def build(self, seed: int | None, weight_name: str) -> tf_keras.initializers.Initializer:
        """Return a new initialiser that depends only on seed and weight name; zeros without a seed."""
        if seed is None:
            return tf_keras.initializers.Zeros()
        config: dict[str, Any] = dict(self.arguments)
        initializer_class = type(tf_keras.initializers.get(self.class_name))
        if "seed" in initializer_class().get_config():
            config["seed"] = zlib.crc32(f"{seed}/{weight_name}".encode()) & 0x7FFFFFFF
        return initializer_class(**config)


GLOROT_UNIFORM = InitializerOptions(class_name="GlorotUniform")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchNormOptions:
    """Batch normalisation (https://arxiv.org/abs/1502.03167) after a convolution.

    Attributes:
        momentum: fraction of the old moving average that a step keeps.
        epsilon: added to the variance.
        center: whether an offset (beta) is learnt.
        scale: whether a factor (gamma) is learnt.
        train: whether training uses and collects batch statistics.
        synchronized: whether these cover the whole batch over all replicas.
    """

    momentum: float = 0.999
    epsilon: float = 0.001
    center: bool = True
    scale: bool = False
    train: bool = True
    synchronized: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerHyperparams:
    """Settings of the convolutions of one part of a network.

    Attributes:
        initializer: of the kernels.
        regularizer: of the kernels; None for none.
        batch_norm: None for no normalisation.
        activation: "none", "relu", "relu6", "swish" or a name in `keras_layers.FUNCTIONS`.
        force_use_bias: whether to add a bias even before a normalisation.
    """

    initializer: InitializerOptions = GLOROT_UNIFORM
    regularizer: Regularizer | None = None
    batch_norm: BatchNormOptions | None = None
    activation: str = "relu"
    force_use_bias: bool = False

    @property
    def use_bias(self) -> bool:
        """Whether a convolution before a normalisation has a bias."""
        return self.force_use_bias or self.batch_norm is None or not self.batch_norm.center


def regularizer_loss(regularizer: Regularizer, weights: tf.Tensor) -> tf.Tensor:
    """Compute the regularization loss of one weight tensor, a float32 scalar."""
    total = tf.nn.l2_loss(weights) if regularizer.kind == "l2" else tf.reduce_sum(tf.abs(weights))
    return regularizer.weight * total


_logger = logging.getLogger(__name__)

RegularizedVariables = list[tuple[tf.Variable, Regularizer]]


def regularized_variables(
    network: tf_keras.Model, regularizers: Mapping[str, Regularizer]
) -> RegularizedVariables:
    """Pair each regularized variable with its regularizer.

    Args:
        network: original or rewritten for quantization. A rewritten network keeps layer names; each copy
            `NAME_level_N` of a shared layer is regularized like the layer.
        regularizers: "layer/weight" -> regularizer.

    Returns:
        Each variable once, in the network's order.
    """
    regularized: RegularizedVariables = []
    served: set[str] = set()
    for variable in network.trainable_variables:
        own = parse_variable_name(variable)
        name = next((name for name in (own.key, own.original.key) if name in regularizers), None)
        if name is not None:
            regularized.append((variable, regularizers[name]))
            served.add(name)
    missing = sorted(set(regularizers) - served)
    if missing:
        _logger.warning(
            "%d of %d regularized weights are not regularized, as they are not trainable in network %r; the"
            " first is %s",
            len(missing),
            len(regularizers),
            network.name,
            missing[0],
        )
    return regularized


def regularization_loss(variables: RegularizedVariables) -> tf.Tensor:
    """Sum the losses of all regularizers, a float32 scalar."""
    if not variables:
        return tf.zeros([])
    return tf.add_n([regularizer_loss(regularizer, variable) for variable, regularizer in variables])


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChannelOptions:
    """Channel counts of a network.

    Attributes:
        depth_multiplier: factor of all channel counts.
        min_depth: lower bound of channel counts.
    """

    depth_multiplier: float = 1.0
    min_depth: int = 16

    def channels(self, nominal: float) -> int:
        """Return the channels of a layer for its nominal count."""
        return max(int(nominal * self.depth_multiplier), self.min_depth)
