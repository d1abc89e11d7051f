"""Dropout whose draws a stop of the training does not change."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from detection_core.ops.update_draws import draw_seed


@tf_keras.utils.register_keras_serializable(package="detflow")
class Dropout(tf_keras.layers.Dropout):
    """Keras' layer; in an update of a training it draws as `update_draws` says."""

    def call(self, inputs: tf.Tensor, training: Any = None) -> tf.Tensor:
        """Drop values in training, and scale up the others; the shape stays."""
        seed = draw_seed(self.name) if training is True and self.rate else None
        if seed is None:
            return super().call(inputs, training=training)
        shape = self._get_noise_shape(inputs)
        return tf.nn.experimental.stateless_dropout(inputs, self.rate, seed, noise_shape=shape)


def stochastic_depth(rate: float, name: str) -> Dropout:
    """Return a layer that drops whole images, https://arxiv.org/abs/1603.09382.

    Args:
        rate: probability that an image is dropped.
        name: of the layer.
    """
    return Dropout(rate, noise_shape=(None, 1, 1, 1), name=name)
