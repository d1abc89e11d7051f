"""Gates that weigh the channels of a map by their means: squeeze and excitation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.constants import AddConstant, MultiplyByConstant
from detection_core.parts.layers.network_layers import NetworkLayers


def hard_sigmoid(features: tf.Tensor, name: str) -> tf.Tensor:
    """Go from 0 at -3 to 1 at 3 in a straight line, https://arxiv.org/abs/1905.02244.

    Each step is a layer, as each is an operation of an integer network.
    """
    shifted = AddConstant(3.0, name=f"{name}_shift")(features)
    clipped = tf_keras.layers.ReLU(max_value=6.0, name=f"{name}_clip")(shifted)
    return MultiplyByConstant(1.0 / 6.0, name=name)(clipped)


def sigmoid(features: tf.Tensor, name: str) -> tf.Tensor:
    """The logistic function."""
    return tf_keras.layers.Activation("sigmoid", name=name)(features)


GATES: dict[str, Callable[[tf.Tensor, str], tf.Tensor]] = {"sigmoid": sigmoid, "hard_sigmoid": hard_sigmoid}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GateOptions:
    """Shape of a gate.

    Attributes:
        channels: between its two convolutions.
        activation: between them; see `LayerHyperparams.activation`.
        gate: what makes weights of their result, a name in `GATES`.
        regularize_biases: the regularizer of the kernels is that of the biases, too.
    """

    channels: int
    activation: str
    gate: str = "sigmoid"
    regularize_biases: bool = False


def squeeze_excite(features: tf.Tensor, layers: NetworkLayers, name: str, options: GateOptions) -> tf.Tensor:
    """Weigh channels with a gate from their means, https://arxiv.org/abs/1709.01507.

    Args:
        features: [B, H, W, C].
        layers: maker of the layers.
        name: what the names of the layers start with.
        options: shape of the gate.
    """
    inner = layers.under(dataclasses.replace(layers.hyperparams, activation=options.activation))
    gate = tf_keras.layers.GlobalAveragePooling2D(keepdims=True, name=f"{name}_squeeze")(features)
    for piece, channels in (("reduce", options.channels), ("expand", features.shape[-1])):
        part = f"{name}_gate_{piece}"
        gate = inner.conv(part, channels, 1, use_bias=True)(gate)
        if options.regularize_biases and layers.hyperparams.regularizer is not None:
            layers.regularizers[f"{part}/bias"] = layers.hyperparams.regularizer
        if piece == "reduce":
            gate = inner.activation(f"{part}_act")(gate)
    gate = GATES[options.gate](gate, f"{name}_gate")
    return tf_keras.layers.Multiply(name=f"{name}_excite")([features, gate])
