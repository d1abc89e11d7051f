"""The sum of a BiFPN node's inputs, with a learnt weight for each, https://arxiv.org/abs/1911.09070."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

# Keeps the sum of the weights away from zero.
EPSILON = 1e-4
PLAIN_SUM = "sum"


def _fast_attention(weights: tf.Tensor) -> tf.Tensor:
    positive = tf.nn.relu(weights)
    return positive / (tf.reduce_sum(positive) + EPSILON)


def _attention(weights: tf.Tensor) -> tf.Tensor:
    """The softmax of each weight by itself, which is 1.

    Models of the field were trained so: their weights never move, and the node is a plain sum.
    """
    return tf.nn.softmax(weights, axis=-1)


# Name in configs -> shares of the inputs, float32 [n, 1], from their weights, float32 [n, 1].
SHARES: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "fast_attention": _fast_attention,
    "weighted_sum": tf.convert_to_tensor,
    "attention": _attention,
}
COMBINE_METHODS = (PLAIN_SUM, *SHARES)


@tf_keras.utils.register_keras_serializable(package="detflow")
class WeightedFusion(tf_keras.layers.Layer):
    """Adds up maps of one shape, each times its weight.

    Args:
        method: a name in `SHARES`.
        **settings: of every layer.
    """

    def __init__(self, method: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.method = method

    def build(self, input_shape: Any) -> None:
        """Make the weights, [number of maps, 1], all 1 at first."""
        self.combine_weights = self.add_weight(
            name="bifpn_combine_weights",
            shape=(len(input_shape), 1),
            initializer="ones",
            experimental_autocast=False,  # EPSILON is lost in fewer bits
        )
        super().build(input_shape)

    def call(self, inputs: list[tf.Tensor]) -> tf.Tensor:
        """Add up the maps, [B, h, w, C] each."""
        shares = [tf.cast(share, self.compute_dtype) for share in self.shares()]
        shared = [shares[index] * features for index, features in enumerate(inputs)]
        return functools.reduce(tf.add, shared)  # TensorFlow Lite has no integer kernel for add_n

    @property
    def is_plain(self) -> bool:
        """Whether every share is 1 whatever the weights are; see `_attention`."""
        return SHARES.get(self.method) is _attention

    def shares(self) -> list[tf.Tensor]:
        """Return the share of each map, float32, broadcastable to it."""
        return tf.unstack(SHARES[self.method](self.combine_weights)[:, 0])

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "method": self.method}
