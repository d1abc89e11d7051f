"""Sums and products with a constant, as layers, so that quantization gives each of them a range."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras


class _WithConstant(tf_keras.layers.Layer):
    """What both layers share.

    Args:
        value: the constant.
        **settings: of every layer.
    """

    def __init__(self, value: float, **settings: Any) -> None:
        super().__init__(**settings)
        self.value = value

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "value": self.value}


@tf_keras.utils.register_keras_serializable(package="detflow")
class AddConstant(_WithConstant):
    """Adds a constant to each value."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the sums, in the shape of the inputs."""
        return inputs + tf.cast(self.value, inputs.dtype)


@tf_keras.utils.register_keras_serializable(package="detflow")
class MultiplyByConstant(_WithConstant):
    """Multiplies each value by a constant."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the products, in the shape of the inputs."""
        return inputs * tf.cast(self.value, inputs.dtype)
