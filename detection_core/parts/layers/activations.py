"""Activations that are no layer of tf_keras, by name and as functions of a tensor."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
import tf_keras

# Of google/automl's smooth ReLU.
_SMOOTHNESS = 20.0**4


@tf_keras.utils.register_keras_serializable(package="detflow")
def hard_swish(features: tf.Tensor) -> tf.Tensor:
    """Multiply by a piecewise linear sigmoid, https://arxiv.org/abs/1905.02244."""
    return features * tf.nn.relu6(features + 3.0) / 6.0


@tf_keras.utils.register_keras_serializable(package="detflow")
def mish(features: tf.Tensor) -> tf.Tensor:
    """Multiply by the hyperbolic tangent of the softplus, https://arxiv.org/abs/1908.08681."""
    return features * tf.math.tanh(tf.math.softplus(features))


@tf_keras.utils.register_keras_serializable(package="detflow")
def smooth_relu(features: tf.Tensor) -> tf.Tensor:
    """Go from 0 to the identity without a corner, https://arxiv.org/abs/2006.14536."""
    exact = tf.cast(features, tf.float32)  # the smoothness is beyond float16
    positive = exact > 0.0
    logarithm = tf.math.log(tf.where(positive, _SMOOTHNESS * exact + 1.0, 1.0))
    return tf.cast(tf.where(positive, exact - logarithm / _SMOOTHNESS, 0.0), features.dtype)


FUNCTIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "hswish": hard_swish,
    "mish": mish,
    "srelu": smooth_relu,
}
